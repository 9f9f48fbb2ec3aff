//! Toolkit versions: what a ptxas is, and what a user asks for.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The version of a ptxas: `13.4.92`, as in `Cuda compilation tools, release 13.4, V13.4.92`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Version {
    /// 13 of `13.4.92`: the toolkit generation, which also names the wheel.
    pub major: u16,
    /// 4 of `13.4.92`.
    pub minor: u16,
    /// 92 of `13.4.92`: the build.
    pub patch: u16,
}

impl Version {
    /// The version with these three parts.
    pub const fn new(major: u16, minor: u16, patch: u16) -> Self {
        Version { major, minor, patch }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl From<Version> for String {
    fn from(version: Version) -> String {
        version.to_string()
    }
}

impl TryFrom<String> for Version {
    type Error = VersionError;
    fn try_from(text: String) -> Result<Self, VersionError> {
        text.parse()
    }
}

/// A string that is not a toolkit version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{found}' is not a ptxas version: expected {expected}")]
pub struct VersionError {
    /// What was given.
    pub found: String,
    /// What would have been right.
    pub expected: &'static str,
}

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        match text.parse::<VersionRequest>() {
            Ok(VersionRequest { major, minor: Some(minor), patch: Some(patch) }) => Ok(Version { major, minor, patch }),
            _ => Err(VersionError { found: text.to_owned(), expected: "three numbers such as 13.4.92" }),
        }
    }
}

/// What a user asks for: `13` and `13.4` mean the newest that starts so, `13.4.92` that very one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VersionRequest {
    /// The toolkit generation.
    pub major: u16,
    /// The release, where one was named.
    pub minor: Option<u16>,
    /// The build, where one was named.
    pub patch: Option<u16>,
}

impl VersionRequest {
    /// The newest build of one release: `13.4`.
    pub const fn release(major: u16, minor: u16) -> Self {
        VersionRequest { major, minor: Some(minor), patch: None }
    }

    /// Whether a version is what was asked for.
    pub fn matches(&self, version: Version) -> bool {
        self.major == version.major
            && self.minor.is_none_or(|minor| minor == version.minor)
            && self.patch.is_none_or(|patch| patch == version.patch)
    }

    /// The one version that can match, where there is only one.
    pub fn exact(&self) -> Option<Version> {
        Some(Version { major: self.major, minor: self.minor?, patch: self.patch? })
    }
}

impl From<Version> for VersionRequest {
    fn from(version: Version) -> Self {
        VersionRequest { major: version.major, minor: Some(version.minor), patch: Some(version.patch) }
    }
}

impl fmt::Display for VersionRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.major)?;
        for part in [self.minor, self.patch].into_iter().flatten() {
            write!(f, ".{part}")?;
        }
        Ok(())
    }
}

impl From<VersionRequest> for String {
    fn from(request: VersionRequest) -> String {
        request.to_string()
    }
}

impl TryFrom<String> for VersionRequest {
    type Error = VersionError;
    fn try_from(text: String) -> Result<Self, VersionError> {
        text.parse()
    }
}

impl FromStr for VersionRequest {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        let error = || VersionError { found: text.to_owned(), expected: "13, 13.4 or 13.4.92" };
        let mut parts = text.split('.').map(|part| match part.bytes().all(|b| b.is_ascii_digit()) {
            true => part.parse::<u16>().map_err(|_| error()),
            false => Err(error()),
        });
        let major = parts.next().ok_or_else(error)??;
        let minor = parts.next().transpose()?;
        let patch = parts.next().transpose()?;
        match parts.next() {
            None => Ok(VersionRequest { major, minor, patch }),
            Some(_) => Err(error()),
        }
    }
}

/// Which ptxas to use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Request {
    /// Whatever the machine has, in the documented order.
    #[default]
    Auto,
    /// This file.
    Path(PathBuf),
    /// A managed toolchain.
    Version(VersionRequest),
}

impl Request {
    /// What `--ptxas` (or `PTXINSPECT_PTXAS`) means: a version where it looks like one, otherwise a path.
    pub fn parse(text: &str) -> Self {
        match text.parse() {
            Ok(version) => Request::Version(version),
            Err(_) => Request::Path(PathBuf::from(text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_a_version_only_if_it_looks_like_one() {
        for text in ["13", "13.4", "12.9.86"] {
            let Request::Version(request) = Request::parse(text) else { panic!("{text}") };
            assert_eq!(request.to_string(), text);
        }
        for text in
            ["", "ptxas", "./13.4", "13.", "13.4.92.1", "13.4rc1", "99999", "/opt/cuda-13.4/bin/ptxas", "-1", "+1"]
        {
            assert_eq!(Request::parse(text), Request::Path(PathBuf::from(text)), "{text}");
        }
    }

    #[test]
    fn versions_order_by_number_and_match_by_prefix() {
        let parse = |text: &str| text.parse::<Version>().unwrap();
        assert!(parse("13.4.92") > parse("13.4.9"));
        assert!(parse("13.10.1") > parse("13.9.99"));
        let request: VersionRequest = "13.4".parse().unwrap();
        assert!(request.matches(parse("13.4.92")) && !request.matches(parse("13.0.88")));
        assert!(request.exact().is_none() && VersionRequest::from(parse("13.4.92")).exact().is_some());
        assert!("13.4".parse::<Version>().is_err());
    }

    #[test]
    fn versions_are_strings_in_json() {
        let version = Version::new(12, 9, 86);
        assert_eq!(serde_json::to_string(&version).unwrap(), "\"12.9.86\"");
        assert_eq!(serde_json::from_str::<Version>("\"12.9.86\"").unwrap(), version);
    }
}
