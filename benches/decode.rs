//! Decoding and spelling SASS, in bytes of code a second.
//!
//! `PTXINSPECT_BENCH_CUBIN=file.cubin cargo bench --bench decode` measures a cubin of your own; without it, the recorded words of
//! `testdata/sass`. `scripts/bench-sass` runs nvdisasm beside it.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ptxinspect::base::{Arch, Pc};
use ptxinspect::cubin::Image;
use ptxinspect::sass::{Decoder, Speller, Text, Word};

/// The words of a cubin, or the recorded words of sm_100 many times over.
fn words() -> (Arch, Vec<Word>) {
    if let Some(path) = std::env::var_os("PTXINSPECT_BENCH_CUBIN") {
        let bytes = std::fs::read(path).expect("the cubin can be read");
        let image = Image::parse(&bytes).expect("the file is a cubin");
        let words = image.functions.iter().flat_map(|f| f.code.chunks_exact(16)).map(Word::from_bytes).collect();
        return (image.arch, words);
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/sass/sm_100a.cases");
    let text = std::fs::read_to_string(path).expect("recorded words");
    let mut list = Vec::new();
    for line in text.lines().filter(|l| !l.starts_with('#')) {
        let word = u128::from_str_radix(&line[..32], 16).expect("32 hex digits");
        list.push(Word { lo: word as u64, hi: (word >> 64) as u64 });
    }
    (Arch::new(100), list.iter().copied().cycle().take(100_000).collect())
}

fn decode(c: &mut Criterion) {
    let (arch, words) = words();
    let decoder = Decoder::new(arch).expect("the architecture has tables");
    let mut group = c.benchmark_group("sass");
    group.throughput(Throughput::Bytes(16 * words.len() as u64));
    group.bench_function("decode", |b| {
        b.iter(|| words.iter().filter(|w| decoder.decode(**w).is_unknown()).count());
    });
    let (mut speller, mut out) = (Speller::new(decoder), Text::default());
    group.bench_function("decode and text", |b| {
        b.iter(|| {
            out.clear();
            for (i, word) in words.iter().enumerate() {
                speller.text(*word, Pc(i as u32 * 16), &mut out);
                out.push(b"\n");
            }
            out.as_bytes().len()
        });
    });
    group.finish();
}

criterion_group!(benches, decode);
criterion_main!(benches);
