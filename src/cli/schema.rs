//! `ptxinspect schema [NAME]`: the JSON Schema of an output.

use std::io::Write;

use anyhow::{Result, bail};
use clap::Args as ClapArgs;
use clap::builder::PossibleValuesParser;

use super::{Outcome, output};
use crate::emit::clean::Form;
use crate::emit::schema::{SCHEMAS, schema};

/// `ptxinspect schema`
#[derive(Debug, ClapArgs)]
pub struct SchemaArgs {
    /// Whose output; without one, the names there are
    #[arg(value_parser = PossibleValuesParser::new(SCHEMAS.iter().map(|(name, _)| *name)))]
    pub name: Option<String>,
}

/// Prints one schema, or the names of all.
pub fn run(args: &SchemaArgs) -> Result<Outcome> {
    let mut out = output::stdout(Form::Json);
    match &args.name {
        None => SCHEMAS.iter().try_for_each(|(name, _)| writeln!(out, "{name}"))?,
        Some(name) => match schema(name) {
            Some(text) => out.write_all(text.as_bytes())?,
            None => bail!("there is no schema '{name}'"),
        },
    }
    Ok(Outcome::Fine)
}
