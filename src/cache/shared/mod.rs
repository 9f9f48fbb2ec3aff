//! A store that machines share, behind the folder that each has of its own: what one has compiled, the others need not.
//!
//! Whatever it gives is verified as an entry of the folder is; whatever it fails at costs the time of compiling, is said once, and after a few
//! times in a row it is not asked again. Nothing that is said holds a name, a password or a token.

mod address;
mod folder;
#[cfg(feature = "shared-cache")]
mod servers;

use std::fmt;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

pub use address::{Address, AddressError};
use folder::Folder;

/// After how many failures in a row it is not asked again.
const FAILURES: u32 = 3;

/// Who is told what goes wrong.
pub type Told = fn(&str);

/// Why a store did not do it: in words of ours, for a server's own may quote what it was sent.
type Failure = String;

/// Bytes by name.
trait Store: Send + Sync {
    /// The bytes; none where there are none.
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, Failure>;
    /// Keeps bytes.
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Failure>;
}

/// One of the two things that are asked of a store.
#[derive(Debug, Default)]
struct Way {
    failures: AtomicU32,
    is_off: AtomicBool,
}

/// A shared store.
pub struct Shared {
    store: Box<dyn Store>,
    shown: String,
    read_only: bool,
    told: Told,
    said: Once,
    get: Way,
    put: Way,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("shown", &self.shown).field("read_only", &self.read_only).finish_non_exhaustive()
    }
}

impl Shared {
    /// A store at an address. Nothing is asked of it yet.
    pub fn new(address: &Address, read_only: bool, timeout: Duration, told: Told) -> Result<Shared, AddressError> {
        let store: Box<dyn Store> = match address {
            Address::Folder(folder) => Box::new(Folder::new(folder)),
            #[cfg(feature = "shared-cache")]
            Address::Server(server) => Box::new(servers::Servers::new(server, timeout)?),
            #[cfg(not(feature = "shared-cache"))]
            Address::Server(_) => {
                let _ = timeout;
                return Err(AddressError::NoServers(address.shown()));
            }
        };
        let (get, put) = (Way::default(), Way::default());
        Ok(Shared { store, shown: address.shown(), read_only, told, said: Once::new(), get, put })
    }

    /// Where it is, without what only its owner may know.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Whether nothing is written to it.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    pub(super) fn get(&self, name: &str) -> Option<Vec<u8>> {
        self.ask(&self.get, || self.store.get(name)).flatten()
    }

    pub(super) fn put(&self, name: &str, bytes: &[u8]) {
        if !self.read_only {
            self.ask(&self.put, || self.store.put(name, bytes));
        }
    }

    fn ask<T>(&self, way: &Way, ask: impl FnOnce() -> Result<T, Failure>) -> Option<T> {
        if way.is_off.load(Ordering::Relaxed) {
            return None;
        }
        match ask() {
            Ok(answer) => {
                way.failures.store(0, Ordering::Relaxed);
                Some(answer)
            }
            Err(why) => {
                if way.failures.fetch_add(1, Ordering::Relaxed) + 1 >= FAILURES {
                    way.is_off.store(true, Ordering::Relaxed);
                }
                self.said.call_once(|| {
                    (self.told)(&format!("the shared cache {} is of no use: {why}; ptxas runs instead", self.shown));
                });
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

    fn told(message: &str) {
        SAID.lock().unwrap().push(message.to_owned());
    }

    struct Down(AtomicU32);

    impl Store for &'static Down {
        fn get(&self, _: &str) -> Result<Option<Vec<u8>>, Failure> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Err("it does not answer".to_owned())
        }

        fn put(&self, _: &str, _: &[u8]) -> Result<(), Failure> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Err("it does not answer".to_owned())
        }
    }

    #[test]
    fn what_is_down_is_said_once_and_not_asked_for_ever() {
        static DOWN: Down = Down(AtomicU32::new(0));
        let (get, put) = (Way::default(), Way::default());
        let shown = "redis://cache".to_owned();
        let shared = Shared { store: Box::new(&DOWN), shown, read_only: false, told, said: Once::new(), get, put };
        for _ in 0..10 {
            assert_eq!(shared.get("a"), None);
            shared.put("a", b"b");
        }
        assert_eq!(DOWN.0.load(Ordering::Relaxed), 2 * FAILURES);
        let said = SAID.lock().unwrap();
        assert_eq!(said.len(), 1);
        assert!(said[0].contains("redis://cache is of no use: it does not answer"), "{said:?}");
    }
}
