//! Any text at all: parsing ends, spans are in order and inside of the text, and no view panics.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ptxinspect::ptx::{self, Shape};

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let module = ptx::parse(&text);
    let mut end = 0;
    for statement in module.statements() {
        let span = statement.span();
        assert!(end <= span.start && span.start < span.end && span.end <= text.len());
        end = span.end;
        statement.loc(&text);
        statement.file(&text);
    }
    for variable in module.variables() {
        for name in variable.names() {
            variable.bytes(&name);
        }
    }
    for function in module.functions() {
        let header = function.header();
        header.params().chain(header.returns()).for_each(|param| _ = param.name());
        header.directives().for_each(|directive| _ = directive.numbers().count());
        function.tables().for_each(|table| _ = table.targets().count());
        let registers = function.registers();
        for located in function.instructions() {
            registers.of(&located).count();
            located.instruction.operation();
            for operand in located.instruction.operands() {
                operand.value();
                operand.address();
                if let Shape::Vector(inside) | Shape::Address(inside) | Shape::List(inside) = operand.shape() {
                    inside.for_each(|element| _ = element.shape());
                }
            }
        }
    }
});
