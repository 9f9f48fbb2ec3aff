//! Tokens to statements.
use super::module::Module;

/// Parses the text of a module. Total: what is not PTX is listed in [`Module::errors`].
pub fn parse(text: &str) -> Module<'_> {
    Module { text, statements: Vec::new(), functions: Vec::new(), errors: Vec::new(), errors_left_out: 0 }
}
