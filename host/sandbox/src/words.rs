//! The last words of a guest: the tail of what it wrote to stdout and stderr, kept for the message of a trap.
//!
//! Owns the bounded buffer and the WASI stream in front of it. It must not know what a trap is.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};

/// Bytes that are kept; older ones make room.
pub(crate) const LAST_WORDS_BYTES_MAX: usize = 2 << 10;
/// Bytes a guest may write in one call.
const WRITE_BYTES_MAX: usize = 64 << 10;

/// A shared buffer of the newest bytes.
#[derive(Debug, Clone, Default)]
pub(crate) struct LastWords(Arc<Mutex<Vec<u8>>>);

impl LastWords {
    /// Adds bytes, and lets go of the oldest past the limit.
    pub(crate) fn say(&self, bytes: &[u8]) {
        let newest = &bytes[bytes.len().saturating_sub(LAST_WORDS_BYTES_MAX)..];
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let over = (kept.len() + newest.len()).saturating_sub(LAST_WORDS_BYTES_MAX);
        kept.drain(..over);
        kept.extend_from_slice(newest);
    }

    /// What is kept, as text; none when the guest said nothing.
    pub(crate) fn text(&self) -> Option<String> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The cut may have split a character; its rest tells nobody anything.
        let whole = kept.iter().position(|byte| !matches!(byte, 0x80..=0xBF)).unwrap_or(kept.len());
        let text = String::from_utf8_lossy(&kept[whole..]).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }
}

impl IsTerminal for LastWords {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for LastWords {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

impl OutputStream for LastWords {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        if bytes.len() > WRITE_BYTES_MAX {
            return Err(StreamError::trap("the guest wrote more than it was permitted to"));
        }
        self.say(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES_MAX)
    }
}

#[async_trait::async_trait]
impl Pollable for LastWords {
    async fn ready(&mut self) {}
}

impl AsyncWrite for LastWords {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        self.say(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_words_are_kept() {
        let words = LastWords::default();
        assert_eq!(words.text(), None);
        words.say(b"  \n");
        assert_eq!(words.text(), None);
        words.say(b"first ");
        words.say(&[b'x'; LAST_WORDS_BYTES_MAX]);
        words.say(b" last\n");
        let text = words.text().expect("said");
        assert!(text.len() <= LAST_WORDS_BYTES_MAX && text.ends_with("x last"), "{text}");
        assert!(!text.contains("first"), "{text}");
    }

    #[test]
    fn a_split_character_is_left_out() {
        let words = LastWords::default();
        words.say("é".as_bytes());
        words.say(&vec![b'y'; LAST_WORDS_BYTES_MAX - 1]);
        assert!(words.text().expect("said").starts_with('y'));
    }
}
