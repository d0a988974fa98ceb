//! Single settings that have a grammar: the broker, addresses, the mesh root, patterns of names.
//!
//! Owns their grammars and sentences. It must not know which key a value was written for.

use std::net::SocketAddr;

use super::Broker;

/// Longest mesh root, in bytes.
const ROOT_BYTES_MAX: usize = 128;
/// The port of MQTT where a URL names none.
const MQTT_PORT: u16 = 1883;

/// What is wrong with a setting, and what to do.
pub(super) type Refusal = (String, String);

fn refuse<T>(what: impl Into<String>, mend: impl Into<String>) -> Result<T, Refusal> {
    Err((what.into(), mend.into()))
}

/// A broker's URL. The embedded one listens on the address given beside it.
pub(super) fn broker(text: &str, embedded_listen: SocketAddr) -> Result<Broker, Refusal> {
    if text == "embedded" {
        return Ok(Broker::Embedded { listen: embedded_listen });
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        return refuse(format!("{text:?} is no broker"), "write embedded, or a URL such as mqtt://broker.example.com:1883");
    };
    match scheme {
        "mqtt" => {}
        "mqtts" | "ws" | "wss" => return refuse(format!("this build does not offer {scheme}:// yet"), "write mqtt://host:port"),
        _ => return refuse(format!("{scheme}:// is no scheme of a broker"), "write mqtt://host:port"),
    }
    if rest.contains('@') {
        return refuse("a login stands in the URL", "put it in username and password, which may name variables");
    }
    let Some((host, port)) = host_and_port(rest.strip_suffix('/').unwrap_or(rest)) else {
        return refuse(format!("{text:?} names no host and port"), "write mqtt://host:port, with an IPv6 address in brackets");
    };
    Ok(Broker::External { host: host.to_owned(), port })
}

fn host_and_port(text: &str) -> Option<(&str, u16)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, port) = rest.split_once(']')?;
        host.parse::<std::net::Ipv6Addr>().ok()?;
        return Some((host, port_of(port)?));
    }
    let end = text.find(':').unwrap_or(text.len());
    let (host, port) = text.split_at(end);
    let fine = !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'));
    fine.then_some((host, port_of(port)?))
}

fn port_of(text: &str) -> Option<u16> {
    match text.strip_prefix(':') {
        None => text.is_empty().then_some(MQTT_PORT),
        Some(port) => port.parse().ok().filter(|port| *port != 0),
    }
}

/// A loopback address with its port.
pub(super) fn loopback(text: &str) -> Result<SocketAddr, Refusal> {
    match text.parse::<SocketAddr>() {
        Ok(address) if address.ip().is_loopback() => Ok(address),
        Ok(_) => refuse(
            format!("this build listens on loopback addresses only, and {text} is none"),
            "write 127.0.0.1:port or [::1]:port",
        ),
        Err(_) => refuse(format!("{text:?} is no address"), "write an IP address and a port, such as 127.0.0.1:8701"),
    }
}

/// The topic prefix: levels of `[A-Za-z0-9_-]+` with `/` between them (G1-14).
pub(super) fn root(text: &str) -> Result<String, Refusal> {
    let level = |level: &str| !level.is_empty() && level.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    if text.len() <= ROOT_BYTES_MAX && text.split('/').all(level) {
        return Ok(text.to_owned());
    }
    let mend = format!("write levels of A-Z a-z 0-9 _ - with single slashes between them, {ROOT_BYTES_MAX} bytes at most");
    refuse(format!("{text:?} is no mesh root"), mend)
}

/// The id of an agent made from a folder's name, or `node` where nothing of it is left.
pub(super) fn id_from_folder(name: &str) -> String {
    let mapped: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' }).collect();
    let trimmed = mapped.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let id: String = trimmed.chars().take(job::ids::AGENT_ID_BYTES_MAX).collect();
    if id.is_empty() { "node".into() } else { id }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brokers_are_urls_or_embedded() {
        let listen = "127.0.0.1:1883".parse().expect("an address");
        let shown = |text: &str| broker(text, listen).map(|broker| broker.to_string()).map_err(|(what, _)| what);
        let rows = [
            ("embedded", Ok("embedded, mqtt://127.0.0.1:1883")),
            ("mqtt://broker", Ok("mqtt://broker:1883")),
            ("mqtt://b.example.com:2883/", Ok("mqtt://b.example.com:2883")),
            ("mqtt://[::1]:9", Ok("mqtt://[::1]:9")),
            ("mqtts://b", Err("does not offer mqtts:// yet")),
            ("wss://b/x", Err("does not offer wss:// yet")),
            ("http://b", Err("is no scheme of a broker")),
            ("b:1883", Err("is no broker")),
            ("mqtt://u:p@b", Err("a login stands in the URL")),
            ("mqtt://", Err("names no host")),
            ("mqtt://b:0", Err("names no host")),
            ("mqtt://b:x", Err("names no host")),
            ("mqtt://b/path", Err("names no host")),
            ("mqtt://::1", Err("names no host")),
        ];
        for (text, expected) in rows {
            match (shown(text), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{text}"),
                (Err(found), Err(expected)) => assert!(found.contains(expected), "{text}: {found}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
    }

    /// G1-14: neither ":" nor "." in a root, so that client ids of two roots never meet.
    #[test]
    fn roots_have_a_grammar() {
        for good in ["agents", "a/b-c/d_9", "A"] {
            assert!(root(good).is_ok(), "{good}");
        }
        for bad in ["", "/a", "a/", "a//b", "a.b", "a:b", "a b", "+", "#", "é", &"x".repeat(129)] {
            assert!(root(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn folders_give_ids() {
        for (name, id) in
            [("reviewer", "reviewer"), ("my agents!", "my-agents"), (".hidden", "hidden"), ("日本", "node"), ("", "node")]
        {
            assert_eq!(id_from_folder(name), id);
        }
        assert_eq!(id_from_folder(&"x".repeat(100)).len(), 64);
    }
}
