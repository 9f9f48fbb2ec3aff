//! Listing and decompressing fatbins: `cargo bench --bench container`. With `LIBRARY=libfoo.so`, also what decompressing all its
//! entries takes on one thread: no table of its kernels can be made in less.

use std::hint::black_box;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ptxinspect::container::{Container, EntryKind, Options};

fn container(name: &str, copies: usize) -> Container {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/container").join(name);
    let bytes = std::fs::read(path).unwrap_or_default().repeat(copies);
    Container::from_bytes(name, bytes, Options::default())
}

fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("container");
    let many = container("stored.fatbin", 1000);
    group.throughput(Throughput::Elements(many.entries().count() as u64));
    group.bench_function("list 4000 entries", |b| b.iter(|| black_box(many.entries().count())));
    for name in ["stored.fatbin", "lz4.fatbin", "zstd.fatbin"] {
        let container = container(name, 100);
        let bytes = container.entries().flatten().map(|entry| entry.bytes).sum();
        group.throughput(Throughput::Bytes(bytes));
        group.bench_function(format!("read {name}"), |b| {
            b.iter(|| {
                for entry in container.entries().flatten() {
                    let _ = black_box(entry.read());
                }
            });
        });
    }
    if let Some(path) = std::env::var_os("LIBRARY") {
        let library = Container::open(Path::new(&path), Options::default());
        let cubins = || library.entries().flatten().filter(|entry| entry.kind == EntryKind::Cubin);
        group.throughput(Throughput::Bytes(cubins().map(|entry| entry.bytes).sum()));
        group.sample_size(10).bench_function("decompress a library", |b| {
            b.iter(|| {
                for entry in cubins() {
                    let _ = entry.with_bytes(|bytes| black_box(bytes.len()));
                    entry.release();
                }
            });
        });
    }
    group.finish();
}

criterion_group!(container_benches, benches);
criterion_main!(container_benches);
