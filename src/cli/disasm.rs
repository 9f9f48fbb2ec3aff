//! `ptxinspect disasm FILE…`: instructions in their order.

use std::io::Write;

use anyhow::{Result, bail};

use super::Outcome;
use super::args::{DisasmArgs, Disassembler, TextOrJson};
use super::output;
use super::progress::Progress;
use crate::emit;
use crate::emit::escape::terminal;
use crate::emit::listing::{JsonWriter, Options};
use crate::engine::given;
use crate::engine::listing::{self, Listed, Wanted};
use crate::flow::Rule;
use crate::report::listing::Part;
use crate::sass::Text;

/// Compiles or reads every input, lists every function.
pub fn run(args: &DisasmArgs) -> Result<Outcome> {
    let session = args.compile.session()?;
    let inputs = given::expand(&session.inputs, &args.compile.settings()?)?;
    given::refuse_idle_flags(&inputs, &session.flags)?;
    let mut done = Listed::default();
    let progress = Progress::new("compiling", args.output.quiet);
    output::write(&args.output, args.format, |out| {
        let mut json = None;
        let mut text_out = None;
        match args.format {
            TextOrJson::Json => json = Some(JsonWriter::start(out)?),
            TextOrJson::Text => text_out = Some(out),
        }
        // With live counts nvdisasm leaves out the padding behind a function.
        let no_text = match args.disassembler {
            Disassembler::Native => "",
            Disassembler::Nvdisasm => "  not listed by nvdisasm",
        };
        let width = output::terminal_width(&args.output);
        let options = Options {
            hex: args.hex,
            control: args.control,
            explain: args.explain_control,
            sets: args.sets,
            no_text,
            width,
        };
        // Sets beside nvdisasm's counts are those that it counts.
        let rule = match args.disassembler {
            Disassembler::Native => args.liveness.into(),
            Disassembler::Nvdisasm => Rule::Nvdisasm,
        };
        let mut room = Text::default();
        let mut emit = |function: &Part<'_>| {
            // What is listed may be on the terminal that the bar is on.
            progress.end();
            match (&mut json, &mut text_out) {
                (Some(json), _) => json.function(&function.listed()),
                (None, Some(out)) => emit::listing::write_part(function, &options, &mut room, *out),
                (None, None) => Ok(()),
            }
        };
        let wanted = Wanted { rule, sets: args.sets, nvdisasm: args.disassembler == Disassembler::Nvdisasm };
        done = listing::list(&session, &inputs, wanted, &progress, &mut emit)?;
        if let Some(out) = text_out {
            out.write_all(room.as_bytes())?;
        }
        json.map_or(Ok(()), JsonWriter::finish)
    })?;
    drop(progress);
    let Listed { functions: listed, failed, ran } = done;
    let mut errors = output::errors();
    for program in ran.iter().filter(|_| !args.output.quiet) {
        writeln!(errors, "{program}")?;
    }
    for unit in &failed {
        emit::text::write_unit_error(unit, &mut errors)?;
    }
    if !failed.is_empty() {
        return Ok(Outcome::Failed);
    }
    if listed == 0 && !session.kernels.is_empty() {
        bail!("--kernel {} matches no function of any input", args.compile.kernel.join(", "));
    }
    if listed == 0 && !args.output.quiet {
        let inputs: Vec<String> = session.inputs.iter().map(|path| path.display().to_string()).collect();
        writeln!(errors, "no functions: {}", terminal(&inputs.join(", ")))?;
    }
    Ok(Outcome::Fine)
}
