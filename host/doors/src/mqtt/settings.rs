//! What the operator decides about the mesh door.
//!
//! Owns the settings and the broker's address. It must not know where they were read from.

use std::fmt;

use wire::mqtt::topics::Root;

/// The port of MQTT without TLS.
const PORT: u16 = 1883;

/// Where a broker is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerAddress {
    /// Name or IP address, without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

/// Why a text is no broker address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadAddress {
    /// The scheme is one this build does not speak.
    #[error("{0}:// is not spoken by this build; write mqtt://host:port")]
    Scheme(String),
    /// It is no URL of a broker.
    #[error("{0:?} is no broker address; write mqtt://host:port")]
    Form(String),
}

impl BrokerAddress {
    /// Reads `mqtt://host`, `mqtt://host:port` or `mqtt://[::1]:port`. Logins do not belong into the address.
    pub fn parse(url: &str) -> Result<Self, BadAddress> {
        let form = || BadAddress::Form(url.to_owned());
        let (scheme, rest) = url.split_once("://").ok_or_else(form)?;
        if !matches!(scheme, "mqtt" | "tcp") {
            return Err(BadAddress::Scheme(scheme.to_owned()));
        }
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = match rest.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or_else(form)?;
                (host, port.strip_prefix(':'))
            }
            None => match rest.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (rest, None),
            },
        };
        let port = port.map_or(Ok(PORT), |text| text.parse().map_err(|_| form()))?;
        let clean = !host.is_empty() && !host.contains(['/', '@', '?', '#', ' ']);
        if clean { Ok(Self { host: host.to_owned(), port }) } else { Err(form()) }
    }
}

impl fmt::Display for BrokerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "mqtt://[{}]:{}", self.host, self.port)
        } else {
            write!(f, "mqtt://{}:{}", self.host, self.port)
        }
    }
}

/// A user name and its password. Shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The user name.
    pub username: String,
    /// The password, empty for none.
    pub password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Login({:?}, …)", self.username)
    }
}

/// Settings that all agents of a node share.
#[derive(Debug, Clone)]
pub struct MeshSettings {
    /// The broker.
    pub broker: BrokerAddress,
    /// How to log in there, if at all.
    pub login: Option<Login>,
    /// The mesh root.
    pub root: Root,
    /// `mesh.max_payload_kb`, in bytes: an invoke above it is refused (G1-46).
    pub payload_bytes_max: usize,
    /// `mesh.max_packet_mb`, in bytes: what the client takes at all, advertised to the broker.
    pub packet_bytes_max: u32,
    /// This run of the process, a ULID: a later start is a greater text (G1-15).
    pub instance: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown() {
        let rows = [
            ("mqtt://localhost", "mqtt://localhost:1883"),
            ("mqtt://10.0.0.1:2883/", "mqtt://10.0.0.1:2883"),
            ("mqtt://[::1]:1884", "mqtt://[::1]:1884"),
            ("tcp://b", "mqtt://b:1883"),
        ];
        for (text, shown) in rows {
            assert_eq!(BrokerAddress::parse(text).expect(text).to_string(), shown);
        }
        assert_eq!(BrokerAddress::parse("mqtts://b"), Err(BadAddress::Scheme("mqtts".into())));
        for bad in ["", "b", "mqtt://", "mqtt://b:x", "mqtt://u:p@b", "mqtt://b:70000", "mqtt://[::1", "mqtt://b/x"] {
            assert!(matches!(BrokerAddress::parse(bad), Err(BadAddress::Form(_))), "{bad}");
        }
    }
}
