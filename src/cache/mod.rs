//! What ptxas has made once is not made again: a folder of cubins, refusals and logs, found by what went in.
//!
//! In: a [`Key`] (digest of the PTX, arguments, version of the ptxas) and the identity of the ptxas that is to run. Out: the
//! [`Entry`] that this very ptxas once made of it, or nothing. An entry is one file that is written elsewhere and renamed,
//! and carries its key and a checksum, which every read verifies: whoever is killed while writing leaves at worst a temporary
//! folder, which the next process removes. Behind it may be a [`Shared`] one, which is asked after the folder and told after it. It runs nothing and prints nothing; a cache that cannot be read or written is an empty one.

mod entry;
mod shared;
mod store;
mod tool;

pub use entry::{Entry, Key, Made};
pub use shared::{Address, AddressError, Shared, Told};
pub use store::{Cache, Info};
