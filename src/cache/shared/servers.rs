//! Servers, through OpenDAL: Redis, S3, WebDAV, GitHub's cache.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use opendal::services::{Ghac, Redis, S3, Webdav};
use opendal::{ErrorKind, Operator};
use tokio::runtime::{Builder, Runtime};

use super::address::{AddressError, Kind, Server};
use super::{Failure, Store};

/// A server, and the threads that talk to it.
pub struct Servers {
    operator: Operator,
    runtime: Runtime,
    timeout: Duration,
}

impl Servers {
    /// A server that is asked later.
    pub fn new(server: &Server, timeout: Duration) -> Result<Servers, AddressError> {
        let wrong = |why: &str| AddressError::Wrong { shown: server.shown().to_owned(), why: why.to_owned() };
        // Whoever came first has chosen; both do.
        let _ = rustls::crypto::ring::default_provider().install_default();
        opendal_http_transport_reqwest::install_default();
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("shared-cache").enable_all().build();
        let runtime = runtime.map_err(|_| wrong("the system gives no thread to talk to it"))?;
        let options = server.options.clone();
        let guard = runtime.enter();
        let operator = match server.kind {
            Kind::Redis => Operator::from_iter::<Redis>(options),
            Kind::S3 => Operator::from_iter::<S3>(options),
            Kind::Http => Operator::from_iter::<Webdav>(options),
            Kind::Github => Operator::from_iter::<Ghac>(options),
        };
        drop(guard);
        // What its client says of it may quote a secret.
        let operator = operator.map_err(|_| match server.kind {
            Kind::Github => wrong(
                "ACTIONS_RESULTS_URL and ACTIONS_RUNTIME_TOKEN are not there: a step of a workflow has to hand them on",
            ),
            Kind::Redis | Kind::S3 | Kind::Http => {
                wrong("its client cannot be set up with this address and environment")
            }
        })?;
        Ok(Servers { operator, runtime, timeout })
    }

    /// Runs something there and waits for it, as long as may be. Whoever asks may be inside another runtime, which is not to wait.
    fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = opendal::Result<T>> + Send + 'static,
    ) -> Result<Option<T>, Failure> {
        let (send, receive) = mpsc::sync_channel(1);
        let task = self.runtime.spawn(async move {
            let _ = send.send(work.await);
        });
        match receive.recv_timeout(self.timeout) {
            Ok(Ok(answer)) => Ok(Some(answer)),
            Ok(Err(error)) => match error.kind() {
                ErrorKind::NotFound => Ok(None),
                ErrorKind::PermissionDenied => Err("it refuses: is it the right name, password or token?".to_owned()),
                ErrorKind::RateLimited => Err("it asks for fewer requests".to_owned()),
                ErrorKind::ConfigInvalid => Err("it cannot be asked with this address and environment".to_owned()),
                _ => Err("it does not answer, or not as expected".to_owned()),
            },
            Err(RecvTimeoutError::Disconnected) => Err("its client has failed".to_owned()),
            Err(RecvTimeoutError::Timeout) => {
                task.abort();
                Err(format!("it has not answered within {} s", self.timeout.as_secs_f64()))
            }
        }
    }
}

impl Store for Servers {
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, Failure> {
        let (operator, name) = (self.operator.clone(), name.to_owned());
        self.wait(async move { twice(|| operator.read(&name)).await.map(|bytes| bytes.to_vec()) })
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        let (operator, name, bytes) = (self.operator.clone(), name.to_owned(), bytes.to_vec());
        self.wait(async move { twice(|| operator.write(&name, bytes.clone())).await.map(|_| ()) }).map(|_| ())
    }
}

/// Asks once more where the first time went wrong in a way that may pass: servers of folders trip over two that make the same one.
async fn twice<T, A: Future<Output = opendal::Result<T>>>(ask: impl Fn() -> A) -> opendal::Result<T> {
    match ask().await {
        Err(error) if is_passing(error.kind()) => ask().await,
        answer => answer,
    }
}

fn is_passing(kind: ErrorKind) -> bool {
    use ErrorKind::{ConfigInvalid, NotFound, PermissionDenied, RateLimited};
    !matches!(kind, NotFound | PermissionDenied | RateLimited | ConfigInvalid)
}
