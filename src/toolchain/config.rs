//! The user's own configuration: what may say which program runs, unlike anything in a checkout.
//!
//! `~/.config/ptxinspect/config.toml`:
//!
//! ```toml
//! ptxas = "/opt/cuda-13.4/bin/ptxas"   # or a version, "13.4", or a name on PATH
//! nvdisasm = "~/tools/nvdisasm"        # for `disasm --disassembler nvdisasm`
//! ```

use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Env, Request, ToolchainError};

const FILE: &str = "ptxinspect/config.toml";
const VARIABLE: &str = "PTXINSPECT_CONFIG";

/// What the user's configuration says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The ptxas to run where neither the command line nor `PTXINSPECT_PTXAS` names one.
    pub ptxas: Option<Request>,
    /// The nvdisasm to run where `PTXINSPECT_NVDISASM` names none.
    pub nvdisasm: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    ptxas: Option<String>,
    nvdisasm: Option<String>,
}

impl Config {
    /// Where the file is, whether there is one or not: what `PTXINSPECT_CONFIG` says, or in `XDG_CONFIG_HOME` or `~/.config`,
    /// `%APPDATA%` on Windows. None without a home.
    pub fn file(env: &Env) -> Option<PathBuf> {
        env.folder_var(VARIABLE).or_else(|| Some(folder(env)?.join(FILE)))
    }

    /// Reads the file. None is fine; one that cannot be understood is an error, for it may say which program must not run.
    pub fn read(env: &Env) -> Result<Config, ToolchainError> {
        if let Some(value) = env.var(VARIABLE).map(PathBuf::from).filter(|path| path.is_relative()) {
            return Err(ToolchainError::RelativeVariable { name: VARIABLE, value });
        }
        let Some(path) = Config::file(env) else { return Ok(Config::default()) };
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound && env.var(VARIABLE).is_none() => {
                return Ok(Config::default());
            }
            Err(error) => return Err(ToolchainError::io("read", &path, error)),
        };
        parse(&text, env.home.as_deref()).map_err(|problem| ToolchainError::Config { path, problem })
    }
}

/// The folder of a user's configuration files.
pub(super) fn folder(env: &Env) -> Option<PathBuf> {
    let home = |below: &str| env.home.as_ref().map(|home| home.join(below));
    match std::env::consts::OS {
        "windows" => env.folder_var("APPDATA").or_else(|| home("AppData/Roaming")),
        // The XDG specification: a relative path is to be ignored.
        _ => env.folder_var("XDG_CONFIG_HOME").or_else(|| home(".config")),
    }
}

fn parse(text: &str, home: Option<&Path>) -> Result<Config, String> {
    let raw: Raw = toml::from_str(text).map_err(|error| error.to_string())?;
    let path = |key: &str, text: &str| match (text.strip_prefix("~/"), home) {
        (Some(below), Some(home)) => Ok(home.join(below)),
        _ if Path::new(text).is_absolute() || (!text.is_empty() && !text.contains(['/', '\\'])) => {
            Ok(PathBuf::from(text))
        }
        _ => Err(format!(
            "{key} = \"{text}\" depends on the folder one is in: expected an absolute path, one that starts with ~/ or a name \
             on PATH"
        )),
    };
    let ptxas = raw.ptxas.map(|text| match Request::parse(&text) {
        Request::Path(_) => path("ptxas", &text).map(Request::Path),
        version => Ok(version),
    });
    let nvdisasm = raw.nvdisasm.map(|text| path("nvdisasm", &text));
    Ok(Config { ptxas: ptxas.transpose()?, nvdisasm: nvdisasm.transpose()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_absolute_paths_and_names_are_taken() {
        let read = |text: &str| parse(text, Some(Path::new("/home/me")));
        assert_eq!(read("").unwrap(), Config::default());
        assert_eq!(read("ptxas = \"13.4\"").unwrap().ptxas, Some(Request::parse("13.4")));
        assert_eq!(read("ptxas = \"~/bin/ptxas\"").unwrap().ptxas, Some(Request::Path("/home/me/bin/ptxas".into())));
        assert_eq!(read("nvdisasm = \"nvdisasm-13\"").unwrap().nvdisasm, Some("nvdisasm-13".into()));
        for (text, words) in [
            ("ptxas = \"./ptxas\"", "an absolute path"),
            ("ptxas = \"tools/ptxas\"", "an absolute path"),
            ("ptxas = \"\"", "an absolute path"),
            ("ptxsa = \"13.4\"", "unknown field"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
