//! The cache that machines share, against real servers: what one machine has compiled another does not compile, and whatever happens to the
//! server, the answer is the same.
#![cfg(unix)]

mod support;

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use support::{program, ptxas, root, stderr, stdout, venv};

const SECRET: &str = "hunter2";

/// A server that is killed with the test.
struct Server {
    child: Child,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Server {
    /// Starts a program that listens; `None`, and a word why, where it is not there.
    fn start(what: &str, command: impl FnOnce(u16) -> Command) -> Option<Server> {
        let port = free_port();
        let mut command = command(port);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(child) = command.spawn() else {
            eprintln!("SKIPPED: no {what}: install it by its package");
            return None;
        };
        let server = Server { child, port };
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(start.elapsed() < Duration::from_secs(60), "{what} does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(server)
    }

    fn redis(folder: &Path) -> Option<Server> {
        Server::start("redis-server (Debian's package)", |port| {
            let mut command = Command::new("redis-server");
            command.args(["--save", "", "--requirepass", SECRET, "--bind", "127.0.0.1", "--port", &port.to_string()]);
            command.current_dir(folder);
            command
        })
    }

    fn s3() -> Option<Server> {
        let python = venv()?;
        Server::start("moto (Python's package moto[server])", |port| {
            let mut command = Command::new(python.with_file_name("moto_server"));
            command.args(["-p", &port.to_string()]);
            command
        })
    }

    fn webdav(folder: &Path) -> Option<Server> {
        let python = venv()?;
        let root = folder.to_owned();
        Server::start("wsgidav (Python's package)", |port| {
            let mut command = Command::new(python.with_file_name("wsgidav"));
            command.args(["--host=127.0.0.1", "--auth=anonymous", "--port", &port.to_string(), "--root"]).arg(root);
            command
        })
    }
}

/// A machine: a folder of inputs, and a cache of its own.
struct Machine {
    folder: tempfile::TempDir,
    url: String,
    more: Vec<(&'static str, String)>,
    ptxas: Option<PathBuf>,
}

/// A ptxas that notes each time that it compiles.
struct Counted {
    folder: tempfile::TempDir,
}

impl Counted {
    fn new(real: &Path) -> Counted {
        let counted = Counted { folder: tempfile::tempdir().unwrap() };
        let (log, real) = (counted.folder.path().join("log"), real.display());
        let text = format!(
            "#!/bin/sh\ncase \"$*\" in *--version*|*--help*) ;; *) echo run >> '{}' ;; esac\nexec '{real}' \"$@\"\n",
            log.display()
        );
        fs::write(counted.path(), text).unwrap();
        fs::set_permissions(counted.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        counted
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("ptxas")
    }

    fn runs(&self) -> usize {
        fs::read_to_string(self.folder.path().join("log")).map_or(0, |log| log.lines().count())
    }
}

impl Machine {
    fn new(kernels: usize, url: &str) -> Machine {
        let folder = tempfile::tempdir().unwrap();
        let text = fs::read_to_string(root("testdata/ptx/saxpy.ptx")).unwrap();
        fs::create_dir(folder.path().join("k")).unwrap();
        for at in 0..kernels {
            fs::write(folder.path().join(format!("k/{at}.ptx")), format!("{text}\n// {at}\n")).unwrap();
        }
        let policy = "inputs = [\"k/*.ptx\"]\narch = [\"sm_80\", \"sm_90\"]\nptxas = [\"13.4\"]\n";
        fs::write(folder.path().join("ptxinspect.toml"), policy).unwrap();
        Machine { folder, url: url.to_owned(), more: Vec::new(), ptxas: None }
    }

    fn with(mut self, name: &'static str, value: &str) -> Machine {
        self.more.push((name, value.to_owned()));
        self
    }

    fn counted(mut self, ptxas: &Counted) -> Machine {
        self.ptxas = Some(ptxas.path());
        self
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = program();
        command.current_dir(self.path()).args(args).env("PTXINSPECT_CACHE", self.path().join("cache"));
        command.env("PTXINSPECT_CACHE_URL", &self.url).env("PTXINSPECT_CACHE_TIMEOUT", "2");
        command.envs(self.more.iter().map(|(name, value)| (name, value)));
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        let output = self.command(args).output().unwrap();
        let said = stdout(&output) + &stderr(&output);
        assert!(!said.contains(SECRET), "{said}");
        output
    }

    /// Records, and says a digest of what was recorded and what was said on standard error.
    fn record(&self) -> (String, String) {
        let ptxas = self.ptxas.as_ref().and_then(|path| path.to_str());
        let ptxas: Vec<&str> = ptxas.into_iter().flat_map(|path| ["--ptxas", path]).collect();
        let output = self.run(&[&["gate", "--update", "--quiet"], &ptxas[..]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        let path = self.path().join("ptxinspect.lock.json");
        let recorded = digest(&path);
        fs::remove_file(path).unwrap();
        (recorded, stderr(&output))
    }
}

/// A file in a few words: a failure is to be read by people.
fn digest(path: &Path) -> String {
    let bytes = fs::read(path).unwrap();
    let hash = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{} bytes, {hash:x}", bytes.len())
}

/// What a machine without a shared cache records.
fn alone(kernels: usize) -> String {
    let machine = Machine::new(kernels, "");
    let (recorded, said) = machine.record();
    assert_eq!(said, "");
    recorded
}

/// Entries that a cache has.
fn entries(machine: &Machine) -> u64 {
    let info = machine.run(&["cache", "info", "--format", "json"]);
    let info: serde_json::Value = serde_json::from_slice(&info.stdout).unwrap();
    info["entries"].as_u64().unwrap()
}

/// One machine compiles and shares, another with an empty cache of its own takes it; a third may only read.
fn is_shared(machine: impl Fn() -> Machine, stored: impl Fn() -> usize) {
    const KERNELS: usize = 4;
    let Some(real) = ptxas() else { return };
    let (expected, ptxas) = (alone(KERNELS), Counted::new(real));
    // Not what is tested here: a server on a busy machine takes its time.
    let machine = || machine().with("PTXINSPECT_CACHE_TIMEOUT", "60");
    let first = machine().counted(&ptxas);
    assert_eq!(first.record(), (expected.clone(), String::new()));
    assert_eq!((ptxas.runs(), stored()), (2 * KERNELS, 2 * KERNELS), "each build is made once, and shared");
    let second = machine().counted(&ptxas);
    assert_eq!(second.record(), (expected.clone(), String::new()));
    assert_eq!(entries(&second), 2 * KERNELS as u64, "what is shared is kept");
    assert_eq!(ptxas.runs(), 2 * KERNELS, "and not made again");
    // Who may only read changes nothing there.
    let before = stored();
    let reader = machine().counted(&ptxas).with("PTXINSPECT_CACHE_READ_ONLY", "1");
    fs::write(reader.path().join("k/new.ptx"), fs::read(root("testdata/ptx/spills.ptx")).unwrap()).unwrap();
    let (_, said) = reader.record();
    assert_eq!((said.as_str(), stored(), ptxas.runs()), ("", before, 2 * KERNELS + 2));
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

#[test]
fn a_folder_is_shared() {
    if ptxas().is_none() {
        return;
    }
    let store = tempfile::tempdir().unwrap();
    let url = store.path().to_str().unwrap();
    is_shared(|| Machine::new(4, url), || files(store.path()).len());
    // Whatever somebody does to the files, no answer is wrong.
    let expected = alone(4);
    for (at, file) in files(store.path()).iter().enumerate() {
        let bytes = fs::read(file).unwrap();
        match at % 4 {
            0 => fs::write(file, &bytes[..bytes.len() / 2]).unwrap(),
            1 => fs::write(file, fs::read(&files(store.path())[2]).unwrap()).unwrap(),
            2 => fs::write(file, bytes.iter().map(|byte| byte ^ 1).collect::<Vec<_>>()).unwrap(),
            _ => fs::write(file, b"").unwrap(),
        }
    }
    assert_eq!(Machine::new(4, url).record(), (expected.clone(), String::new()));
    // And what was damaged is whole again.
    let machine = Machine::new(4, url).with("PTXINSPECT_CACHE_READ_ONLY", "1");
    assert_eq!(machine.record(), (expected.clone(), String::new()));
    let (recorded, said) = Machine::new(4, "/no/such/share").record();
    assert_eq!(recorded, expected);
    assert_eq!(said.matches("the shared cache /no/such/share is of no use").count(), 1, "{said}");
}

#[test]
fn addresses_that_are_none_are_errors() {
    let says = |url: &str, more: Option<(&'static str, &str)>| {
        let machine = Machine::new(1, url);
        let machine = more.into_iter().fold(machine, |machine, (name, value)| machine.with(name, value));
        let output = machine.run(&["gate"]);
        assert_eq!(output.status.code(), Some(2));
        stderr(&output)
    };
    assert!(says("cache", None).contains("no address of a shared cache"));
    assert!(says("ftp://me:hunter2@host/x", None).contains("'ftp://…' is no address"));
    assert!(says("s3://me:hunter2@bucket", None).contains("AWS_ACCESS_KEY_ID"));
    assert!(says("/tmp", Some(("PTXINSPECT_CACHE_READ_ONLY", "perhaps"))).contains("expected 1 or 0"));
    assert!(says("/tmp", Some(("PTXINSPECT_CACHE_TIMEOUT", "-1"))).contains("expected a number of seconds"));
    if cfg!(not(feature = "shared-cache")) {
        assert!(says("redis://me:hunter2@host", None).contains("built without servers"));
    } else {
        assert!(says("github:", None).contains("ACTIONS_RESULTS_URL"));
    }
}

#[cfg(feature = "shared-cache")]
mod servers {
    use super::*;
    use std::io::{Read, Write};

    /// A request over HTTP, and the body of the answer.
    fn http(port: u16, method: &str, path: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    fn redis_keys(port: u16) -> usize {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        write!(stream, "AUTH {SECRET}\r\nDBSIZE\r\nQUIT\r\n").unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer.lines().find_map(|line| line.strip_prefix(':')?.parse().ok()).unwrap()
    }

    #[test]
    fn redis_is_shared_and_may_go() {
        let folder = tempfile::tempdir().unwrap();
        let (Some(_), Some(server)) = (ptxas(), Server::redis(folder.path())) else { return };
        let url = format!("redis://:{SECRET}@127.0.0.1:{}/0", server.port);
        is_shared(|| Machine::new(4, &url), || redis_keys(server.port));
        let info = Machine::new(1, &url).run(&["cache", "info"]);
        assert!(stdout(&info).contains(&format!("shared   redis://127.0.0.1:{}/0", server.port)), "{}", stdout(&info));
        // The wrong password is an outage that is said.
        let expected = alone(4);
        let (recorded, said) = Machine::new(4, &format!("redis://:wrong@127.0.0.1:{}/0", server.port)).record();
        assert_eq!((recorded, said.matches("is of no use").count()), (expected, 1), "{said}");
        goes_in_the_midst(server, &url, &[]);
    }

    #[test]
    fn s3_is_shared_and_may_go() {
        let (Some(_), Some(server)) = (ptxas(), Server::s3()) else { return };
        let made = http(server.port, "PUT", "/kernels");
        assert!(made.contains("200 OK"), "{made}");
        let url = "s3://kernels/team/cache";
        let endpoint = format!("http://127.0.0.1:{}", server.port);
        let secrets =
            [("AWS_ENDPOINT_URL", endpoint.as_str()), ("AWS_ACCESS_KEY_ID", "me"), ("AWS_SECRET_ACCESS_KEY", SECRET)];
        let machine = || secrets.iter().fold(Machine::new(4, url), |machine, (name, value)| machine.with(name, value));
        let stored = || http(server.port, "GET", "/kernels?list-type=2").matches("<Key>team/cache/v3/").count();
        is_shared(machine, stored);
        goes_in_the_midst(server, url, &secrets);
    }

    #[test]
    fn webdav_is_shared_and_may_go() {
        let folder = tempfile::tempdir().unwrap();
        let (Some(_), Some(server)) = (ptxas(), Server::webdav(folder.path())) else { return };
        let url = format!("http://me:{SECRET}@127.0.0.1:{}/team", server.port);
        is_shared(|| Machine::new(4, &url), || files(folder.path()).len());
        goes_in_the_midst(server, &url, &[]);
    }

    /// The server is killed while a machine fills it: the answer is the same, and what is wrong is said once.
    fn goes_in_the_midst(mut server: Server, url: &str, secrets: &[(&'static str, &str)]) {
        const KERNELS: usize = 60;
        let expected = alone(KERNELS);
        let machine =
            secrets.iter().fold(Machine::new(KERNELS, url), |machine, (name, value)| machine.with(name, value));
        let mut command = machine.command(&["gate", "--update", "--quiet"]);
        let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(700));
        server.child.kill().unwrap();
        server.child.wait().unwrap();
        let output = running.wait_with_output().unwrap();
        let said = stderr(&output);
        assert!(output.status.success() && !said.contains(SECRET), "{said}");
        assert_eq!(said.matches("is of no use").count(), 1, "{said}");
        assert_eq!(digest(&machine.path().join("ptxinspect.lock.json")), expected);
        // And one that was never there.
        let machine =
            secrets.iter().fold(Machine::new(KERNELS, url), |machine, (name, value)| machine.with(name, value));
        let (recorded, said) = machine.record();
        assert_eq!((recorded, said.matches("is of no use").count()), (expected, 1), "{said}");
    }

    /// A server that takes what it is sent and never answers: so long as the timeout lasts, three times at most, and not once for each kernel.
    #[test]
    fn a_server_that_hangs_costs_its_timeout() {
        if ptxas().is_none() {
            return;
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let mut held = Vec::new();
            for stream in listener.incoming() {
                held.push(stream);
            }
        });
        let expected = alone(12);
        for url in [format!("redis://127.0.0.1:{port}/0"), format!("http://127.0.0.1:{port}/x")] {
            let machine = Machine::new(12, &url).with("PTXINSPECT_CACHE_TIMEOUT", "0.5");
            let start = Instant::now();
            let (recorded, said) = machine.record();
            assert_eq!((recorded, said.matches("is of no use").count()), (expected.clone(), 1), "{said}");
            assert!(said.contains("has not answered within 0.5 s"), "{said}");
            assert!(start.elapsed() < Duration::from_secs(60));
        }
    }
}
