//! Where a shared store is: a folder, or a server as a URL.

use std::fmt;
use std::path::PathBuf;

/// A kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Redis and what speaks as it does.
    Redis,
    /// Amazon's S3 and what speaks as it does.
    S3,
    /// WebDAV, or any server that takes PUT and gives GET.
    Http,
    /// The cache of GitHub's runners.
    Github,
}

/// A server and how it is asked.
#[derive(Clone, PartialEq, Eq)]
pub struct Server {
    /// Which kind.
    pub kind: Kind,
    /// Settings of its client, some of which are secret.
    pub options: Vec<(String, String)>,
    shown: String,
}

impl Server {
    /// The address without what only its owner may know.
    pub fn shown(&self) -> &str {
        &self.shown
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("kind", &self.kind).field("shown", &self.shown).finish_non_exhaustive()
    }
}

/// Where a shared store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A folder.
    Folder(PathBuf),
    /// A server.
    Server(Server),
}

/// Why there is no store at an address. What is quoted of it holds no secret.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum AddressError {
    /// It is none.
    #[error(
        "'{0}' is no address of a shared cache: expected an absolute folder, redis://HOST:PORT/DB, s3://BUCKET/FOLDER, \
         https://HOST/FOLDER or github:"
    )]
    Unknown(String),
    /// A part of it is wrong.
    #[error("{shown}: {why}")]
    Wrong {
        /// The address.
        shown: String,
        /// What is wrong.
        why: String,
    },
    /// This program was built without servers.
    #[error(
        "{0}: this ptxinspect was built without servers: install one of the released programs, or build it with \
         --features shared-cache; a folder works with any"
    )]
    NoServers(String),
}

/// The parts of a URL.
struct Url<'a> {
    scheme: &'a str,
    user: Option<String>,
    password: Option<String>,
    host: &'a str,
    path: &'a str,
    query: Vec<(&'a str, String)>,
}

impl Url<'_> {
    fn parse(text: &str) -> Option<Url<'_>> {
        let (scheme, rest) = text.split_once("://")?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (userinfo, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        let (user, password) = match userinfo.map(|user| user.split_once(':').unwrap_or((user, ""))) {
            Some((user, password)) => (decoded(user)?, decoded(password)?),
            None => (String::new(), String::new()),
        };
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        let mut pairs = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=')?;
            pairs.push((name, decoded(value)?));
        }
        Some(Url { scheme, user: some(user), password: some(password), host, path, query: pairs })
    }

    fn shown(&self) -> String {
        let path = if self.path.is_empty() { String::new() } else { format!("/{}", self.path) };
        format!("{}://{}{path}", self.scheme, self.host)
    }
}

/// Text with `%41` replaced; none where that is no UTF-8.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let [high, low, after @ ..] = rest else { return None };
        let digit = |byte: &u8| char::from(*byte).to_digit(16);
        bytes.push((digit(high)? * 16 + digit(low)?) as u8);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

/// What of a text that is no URL may be shown: nothing after what could be a secret.
fn harmless(text: &str) -> String {
    let scheme = text.split("://").next().unwrap_or_default();
    if text.contains("://") {
        format!("{scheme}://…")
    } else if text.contains('@') {
        "…".to_owned()
    } else {
        text.to_owned()
    }
}

impl Address {
    /// Reads an address; `var` gives variables of the environment, in which secrets are better off than in a URL.
    pub fn parse(text: &str, var: &dyn Fn(&str) -> Option<String>) -> Result<Address, AddressError> {
        if text.starts_with('/') || PathBuf::from(text).is_absolute() {
            return Ok(Address::Folder(PathBuf::from(text)));
        }
        if text == "github:" {
            let options = vec![("root".to_owned(), "/ptxinspect".to_owned())];
            return Ok(Address::Server(Server { kind: Kind::Github, options, shown: text.to_owned() }));
        }
        let url = Url::parse(text).ok_or_else(|| AddressError::Unknown(harmless(text)))?;
        if url.scheme == "file" && url.host.is_empty() {
            let path = decoded(url.path).ok_or_else(|| AddressError::Unknown(harmless(text)))?;
            return Ok(Address::Folder(PathBuf::from(format!("/{path}"))));
        }
        let kind = match url.scheme {
            "redis" | "rediss" => Kind::Redis,
            "s3" => Kind::S3,
            "http" | "https" => Kind::Http,
            _ => return Err(AddressError::Unknown(harmless(text))),
        };
        let wrong = |why: &str| Err(AddressError::Wrong { shown: url.shown(), why: why.to_owned() });
        if url.host.is_empty() {
            return wrong("it names no host: expected one after ://");
        }
        let mut options: Vec<(String, String)> = Vec::new();
        let mut set = |name: &str, value: Option<String>| {
            options.extend(value.map(|value| (name.to_owned(), value)));
        };
        let known: &[&str] = if kind == Kind::S3 { &["endpoint", "region", "enable_virtual_host_style"] } else { &[] };
        if let Some((name, _)) = url.query.iter().find(|(name, _)| !known.contains(name)) {
            return wrong(&format!("'{name}' is not known here: expected {}", expected(known)));
        }
        match kind {
            Kind::Redis => {
                let (db, root) = url.path.split_once('/').unwrap_or((url.path, ""));
                if !db.is_empty() && db.parse::<u16>().is_err() {
                    return wrong(&format!("'{db}' is not a database: expected a number, and a folder after it"));
                }
                set("endpoint", Some(format!("{}://{}", url.scheme, url.host)));
                set("username", url.user.clone());
                set("password", url.password.clone().or_else(|| var("PTXINSPECT_CACHE_TOKEN")));
                set("db", Some(db.to_owned()).filter(|db| !db.is_empty()));
                set("root", Some(format!("/{root}")));
            }
            Kind::S3 => {
                if url.user.is_some() || url.password.is_some() {
                    return wrong(
                        "secrets of S3 are in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, not in its address",
                    );
                }
                let query =
                    |name: &str| url.query.iter().find(|(other, _)| *other == name).map(|(_, value)| value.clone());
                let endpoint =
                    query("endpoint").or_else(|| var("AWS_ENDPOINT_URL_S3")).or_else(|| var("AWS_ENDPOINT_URL"));
                let region = query("region").or_else(|| var("AWS_REGION")).or_else(|| var("AWS_DEFAULT_REGION"));
                set("bucket", Some(url.host.to_owned()));
                set("root", Some(format!("/{}", url.path)));
                set("endpoint", endpoint);
                set("region", Some(region.unwrap_or_else(|| "us-east-1".to_owned())));
                set("enable_virtual_host_style", query("enable_virtual_host_style"));
            }
            Kind::Http => {
                set("endpoint", Some(format!("{}://{}", url.scheme, url.host)));
                set("root", Some(format!("/{}", url.path)));
                set("username", url.user.clone());
                set("password", url.password.clone());
                set("token", var("PTXINSPECT_CACHE_TOKEN"));
            }
            Kind::Github => {}
        }
        Ok(Address::Server(Server { kind, options, shown: url.shown() }))
    }

    /// The address without what only its owner may know.
    pub fn shown(&self) -> String {
        match self {
            Address::Folder(folder) => folder.display().to_string(),
            Address::Server(server) => server.shown.clone(),
        }
    }
}

fn expected(known: &[&str]) -> String {
    if known.is_empty() { "nothing after a ?".to_owned() } else { known.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Address, AddressError> {
        Address::parse(text, &|name| (name == "AWS_ENDPOINT_URL").then(|| "http://localhost:9000".to_owned()))
    }

    fn server(text: &str) -> Server {
        match parse(text).unwrap() {
            Address::Server(server) => server,
            Address::Folder(folder) => panic!("{text} is {folder:?}"),
        }
    }

    fn option<'a>(server: &'a Server, name: &str) -> Option<&'a str> {
        server.options.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    #[test]
    fn folders_and_servers() {
        assert_eq!(parse("/nfs/cache"), Ok(Address::Folder(PathBuf::from("/nfs/cache"))));
        assert_eq!(parse("file:///nfs/my%20cache"), Ok(Address::Folder(PathBuf::from("/nfs/my cache"))));
        let redis = server("redis://me:p%40ss@cache:6379/2/team");
        assert_eq!((redis.kind, option(&redis, "endpoint")), (Kind::Redis, Some("redis://cache:6379")));
        assert_eq!((option(&redis, "password"), option(&redis, "db")), (Some("p@ss"), Some("2")));
        assert_eq!((option(&redis, "username"), option(&redis, "root")), (Some("me"), Some("/team")));
        let s3 = server("s3://bucket/a/b?region=eu-west-1");
        assert_eq!((s3.kind, option(&s3, "bucket"), option(&s3, "root")), (Kind::S3, Some("bucket"), Some("/a/b")));
        assert_eq!(option(&s3, "endpoint"), Some("http://localhost:9000"));
        assert_eq!(option(&s3, "region"), Some("eu-west-1"));
        let http = server("https://user:secret@host:8443/dav/x");
        assert_eq!((option(&http, "endpoint"), option(&http, "root")), (Some("https://host:8443"), Some("/dav/x")));
        assert_eq!(server("github:").kind, Kind::Github);
    }

    #[test]
    fn nothing_that_is_shown_holds_a_secret() {
        for text in [
            "redis://me:hunter2@cache/0",
            "https://me:hunter2@host/x",
            "redis://me:hunter2@/",
            "ftp://me:hunter2@h",
            "redis://me:hunter2%zz@h/",
            "me:hunter2@host",
            "https://h/x?token=hunter2",
            "redis://me:hunter2@h/x",
        ] {
            let shown = match parse(text) {
                Ok(address) => format!("{} {address:?}", address.shown()),
                Err(error) => format!("{error} {error:?}"),
            };
            assert!(!shown.contains("hunter2"), "{text}: {shown}");
        }
    }

    #[test]
    fn what_is_none_is_said() {
        let error = |text: &str| parse(text).unwrap_err().to_string();
        assert!(error("cache").contains("'cache' is no address of a shared cache: expected an absolute folder"));
        assert!(error("ftp://host/x").contains("'ftp://…' is no address"));
        assert!(error("redis:///0").contains("names no host"));
        assert!(error("redis://h/x").contains("'x' is not a database"));
        assert!(error("s3://key:secret@bucket").contains("AWS_ACCESS_KEY_ID"));
        assert!(error("s3://bucket?colour=1").contains("'colour' is not known here: expected endpoint, region"));
        for hostile in ["", "://", "redis://", "%", "redis://%@h", "s3://b?x", "s3://b?=&&", "file://h/x", "\0://\0@\0"]
        {
            assert!(parse(hostile).is_err(), "{hostile:?}");
        }
    }
}
