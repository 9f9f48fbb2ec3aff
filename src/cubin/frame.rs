//! Stack frames of functions that share a section, from `.debug_frame`.
//!
//! `.nv.info` gives each of them the kernel's frame; their own is only in the call frame information, as the largest
//! distance between R1 and the frame's top: `DW_CFA_def_cfa register R1, offset 40` is what `ptxas -v` calls "40 bytes stack
//! frame". gimli's own parser of this section refuses NVIDIA's register numbers, which do not fit 16 bits; its reader does
//! the rest.

use gimli::{EndianSlice, LittleEndian, Reader};

use super::elf::SectionIndex;
use super::image::Image;
use crate::base::Pc;

/// The frame of the code that starts at a pc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Frame {
    pub section: SectionIndex,
    pub start: Pc,
    pub bytes: u32,
}

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Every frame the section describes, sorted. A damaged section gives the frames before the damage.
pub(super) fn read(image: &Image<'_>) -> Vec<Frame> {
    let Some((index, section)) = image.section_named(".debug_frame") else { return Vec::new() };
    let mut relocations = image.relocations(index);
    relocations.sort_by_key(|r| r.offset);
    let whole = Slice::new(section.data, LittleEndian);
    let mut rest = whole;
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let Ok(Some((mut entry, wide))) = entry(&mut rest) else { break };
        let Ok(cie) = (if wide { entry.read_u64() } else { entry.read_u32().map(|id| id as i32 as u64) }) else {
            break;
        };
        // A common information entry: the frame is empty when a function starts.
        if cie == u64::MAX {
            continue;
        }
        let at = entry.offset_from(whole) as u64;
        let address_bytes = image.address_bits / 8;
        let (Ok(address), Ok(_)) = (entry.read_address(address_bytes), entry.read_address(address_bytes)) else {
            break;
        };
        let relocation = relocations.binary_search_by_key(&at, |r| r.offset).ok().and_then(|at| relocations.get(at));
        let Some(symbol) = relocation.and_then(|r| image.symbol(r.symbol)) else { continue };
        let addend = relocation.and_then(|r| r.addend).unwrap_or(address.cast_signed());
        let start = u32::try_from(symbol.value.wrapping_add_signed(addend));
        let (Some(section), Ok(start)) = (symbol.section, start) else { continue };
        // An instruction that is not known ends the walk: what was seen until then may be less than the frame.
        if let Ok(bytes) = largest(entry) {
            frames.push(Frame { section, start: Pc(start), bytes: u32::try_from(bytes).unwrap_or(u32::MAX) });
        }
    }
    frames.sort();
    frames
}

/// The next entry without its length, and whether it is in the 64-bit format.
fn entry<'a>(rest: &mut Slice<'a>) -> gimli::Result<Option<(Slice<'a>, bool)>> {
    let short = rest.read_u32()?;
    let wide = short == u32::MAX;
    let length = if wide { rest.read_u64()? } else { short.into() };
    match usize::try_from(length) {
        Ok(length) if length != 0 => Ok(Some((rest.split(length)?, wide))),
        _ => Ok(None),
    }
}

/// The largest offset that any instruction gives the frame's top.
fn largest(mut code: Slice<'_>) -> gimli::Result<u64> {
    let mut largest = 0;
    while !code.is_empty() {
        let opcode = code.read_u8()?;
        match opcode {
            // DW_CFA_nop, and the short forms of advance_loc and restore, which have no further operand.
            0x00 | 0x0a | 0x0b | 0x40..=0x7f | 0xc0..=0xff => {}
            // DW_CFA_offset.
            0x80..=0xbf => drop(code.read_uleb128()?),
            0x01 => drop(code.read_address(8)?),
            0x02 => drop(code.read_u8()?),
            0x03 => drop(code.read_u16()?),
            0x04 => drop(code.read_u32()?),
            // DW_CFA_offset_extended, register and their signed and value forms: two numbers.
            0x05 | 0x09 | 0x11 | 0x14 | 0x15 => {
                code.skip_leb128()?;
                code.skip_leb128()?;
            }
            // DW_CFA_restore_extended, undefined, same_value, def_cfa_register.
            0x06..=0x08 | 0x0d => code.skip_leb128()?,
            // DW_CFA_def_cfa.
            0x0c => {
                code.skip_leb128()?;
                largest = largest.max(code.read_uleb128()?);
            }
            // DW_CFA_def_cfa_offset.
            0x0e => largest = largest.max(code.read_uleb128()?),
            // DW_CFA_expression and val_expression: a register and a block.
            0x10 | 0x16 => {
                code.skip_leb128()?;
                let block = code.read_uleb128()?;
                code.skip(usize::try_from(block).map_err(|_| gimli::Error::UnsupportedOffset)?)?;
            }
            _ => return Err(gimli::Error::UnknownCallFrameInstruction(gimli::DwCfa(opcode))),
        }
    }
    Ok(largest)
}
