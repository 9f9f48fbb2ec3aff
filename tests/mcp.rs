//! `ptxinspect mcp`: spoken to line by line, and by the protocol's own client.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};
use support::{program, ptxas, root, venv};

/// What an answer may cost.
const TOKENS: u64 = 1500;

/// A server and what it was asked.
struct Server {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    asked: u64,
}

impl Server {
    fn start() -> Server {
        let mut command = program();
        command.arg("mcp").current_dir(root("")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut server = Server { child, input, output, asked: 0 };
        let hello = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"},
        });
        let answer = server.ask("initialize", &hello);
        assert_eq!(answer["result"]["serverInfo"]["name"], "ptxinspect", "{answer}");
        assert!(answer["result"]["instructions"].as_str().unwrap().contains("inspect"));
        server.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        server
    }

    fn say(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        self.say(&json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params}).to_string());
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(answer["id"], self.asked, "{answer}");
        answer
    }

    /// The text of a call's answer, and its error.
    fn call(&mut self, name: &str, arguments: &Value) -> (String, Option<Value>) {
        let answer = self.ask("tools/call", &json!({"name": name, "arguments": arguments}));
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
        (text, (result["isError"] == true).then(|| result["structuredContent"]["error"].clone()))
    }

    fn end(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }
}

#[test]
fn recorded_cubins_are_told_worst_first() {
    let mut server = Server::start();
    let tools = server.ask("tools/list", &json!({}));
    let names: Vec<&str> =
        tools["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["inspect", "annotate", "diff", "occupancy", "explain"]);

    let (all, error) = server.call("inspect", &json!({"path": "testdata/cubin", "threads": 128}));
    assert!(error.is_none(), "{all}");
    assert!(all.contains("worst first") && all.contains("skip="), "{all}");
    let at = |words: &str| all.find(words).unwrap_or_else(|| panic!("{words} is not told\n{all}"));
    assert!(at("PI301") < at("skip="), "{all}");
    // What is left out is shown when it is asked for.
    let skip: usize = all.split("skip=").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(skip > 0);
    let (more, _) = server.call("inspect", &json!({"path": "testdata/cubin", "threads": 128, "skip": skip}));
    assert_ne!(more, all);
    // Those that spill come after those with findings, and before all others.
    let mut pages = vec![all, more];
    while let Some(next) =
        pages.last().and_then(|page| page.split("skip=").nth(1)?.split(' ').next()?.parse::<usize>().ok())
    {
        let (page, _) = server.call("inspect", &json!({"path": "testdata/cubin", "threads": 128, "skip": next}));
        pages.push(page);
    }
    let told = pages.concat();
    assert!(told.rfind("warning PI").unwrap() < told.find("It spills ").unwrap(), "{told}");

    let cubin = "testdata/cubin/hopper-13.4-sm_90a.cubin";
    let (lines, error) = server.call("annotate", &json!({"path": cubin, "lines": "1.."}));
    assert!(error.is_none() && lines.contains("shows what follows"), "{lines}");
    let next = lines.split("lines=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let (more, error) = server.call("annotate", &json!({"path": cubin, "lines": next}));
    assert!(error.is_none() && more != lines, "{more}");

    let (text, error) =
        server.call("diff", &json!({"before": "testdata/cubin/hopper-12.4-sm_90a.cubin", "after": cubin}));
    assert!(error.is_none() && text.contains(" → "), "{text}");
    let (text, error) = server.call("occupancy", &json!({"arch": "sm_90a", "registers": 168, "threads": 384}));
    assert!(error.is_none() && text.contains("An SM holds 1 block: 12 of its 64 warps"), "{text}");
    let (text, error) = server.call("explain", &json!({"code": "(c7508)"}));
    assert!(error.is_none() && text.starts_with("# C7508"), "{text}");
    server.end();
}

/// Nothing that an agent says decides which program runs or what ptxas writes, and no file is read that the server talks on.
#[test]
fn what_is_refused_is_told_and_does_nothing() {
    let mut server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let written = folder.path().join("written");
    let ptx = "testdata/ptx/saxpy.ptx";
    for (name, arguments, expected) in [
        ("inspect", json!({"path": "absent.ptx"}), "cannot open absent.ptx"),
        ("inspect", json!({"path": "-"}), "standard input"),
        ("inspect", json!({"path": "/dev/stdin"}), "expected a file or a folder"),
        ("inspect", json!({"path": ptx, "ptxas": "/bin/sh"}), "is not a version"),
        ("inspect", json!({"path": ptx, "flags": ["-o", written]}), "'-o' cannot be passed to ptxas"),
        (
            "inspect",
            json!({"path": ptx, "flags": [format!("--options-file={}", written.display())]}),
            "cannot be passed",
        ),
        ("inspect", json!({"path": ptx, "arch": "sm_ninety"}), "sm_ninety"),
        ("inspect", json!({"path": ptx, "speed": 1}), "unknown field `speed`"),
        ("inspect", json!({}), "missing field `path`"),
        ("inspect", json!({"path": "testdata/cubin/hopper-13.4-sm_90a.cubin", "kernel": "none"}), "matches no kernel"),
        (
            "annotate",
            json!({"path": "testdata/cubin/hopper-13.4-sm_90a.cubin", "lines": "9..1"}),
            "is no range of lines",
        ),
        ("diff", json!({"before": ptx}), "there is nothing to compare"),
        ("occupancy", json!({"arch": "sm_90", "registers": 32, "threads": 0}), "expected 1 to 1024, found 0"),
        ("explain", json!({"code": "C1"}), "there is no page for 'C1'"),
    ] {
        let (text, error) = server.call(name, &arguments);
        let error = error.unwrap_or_else(|| panic!("{name} {arguments} is answered: {text}"));
        assert!(text.contains(expected), "{name} {arguments}: {text}");
        assert_eq!(error["kind"], "input", "{error}");
        assert!(error["message"].as_str().unwrap().contains(expected), "{error}");
    }
    assert!(!written.exists());
    let unknown = server.ask("tools/call", &json!({"name": "run", "arguments": {}}));
    assert!(unknown["error"]["message"].as_str().unwrap().contains("expected inspect, annotate"), "{unknown}");
    // Not JSON, and a line without an end: neither ends the conversation.
    server.say("{");
    server.say(&"x".repeat(17 << 20));
    let (text, _) = server.call("explain", &json!({}));
    assert!(text.contains("PI203: "), "{text}");
    server.end();
}

/// What ptxas refuses comes with its lines.
#[test]
fn what_ptxas_refuses_has_its_line() {
    if ptxas().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.ptx");
    let text =
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{\n  frobnicate.u32 %r1;\n  ret;\n}\n";
    std::fs::write(&bad, text).unwrap();
    let mut server = Server::start();
    let (text, error) = server.call("inspect", &json!({"path": bad, "ptxas": "13.4"}));
    let error = error.unwrap_or_else(|| panic!("{text}"));
    assert_eq!((&error["kind"], &error["diagnostics"][0]["ptx_line"]), (&json!("ptxas"), &json!(6)), "{error}");
    assert!(text.contains("frobnicate"), "{text}");
    server.end();
}

/// A server without anybody to serve ends, and says nothing on standard output.
#[test]
fn it_ends_when_nobody_is_there() {
    let output = program().arg("mcp").output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
}

/// The protocol's own client, all calls at once, and what the answers cost in tokens of real vocabularies.
#[test]
fn the_protocols_own_client_gets_short_answers() {
    let (Some(python), Some(_)) = (venv(), ptxas()) else { return };
    let mut calls = vec![("explain", json!({})), ("explain", json!({"code": "PI203"}))];
    calls.push(("inspect", json!({"path": "testdata/cubin"})));
    calls.push(("diff", json!({"before": "testdata/ptx/spills.ptx", "arch": "sm_80,sm_90", "ptxas": "13.4"})));
    for cubin in support::cubins() {
        calls.push(("inspect", json!({"path": &cubin, "threads": 256})));
        calls.push(("annotate", json!({"path": &cubin})));
        calls.push(("annotate", json!({"path": &cubin, "lines": "1.."})));
    }
    for (ptx, arch) in support::samples() {
        calls.push(("inspect", json!({"path": ptx, "arch": arch, "ptxas": "13.4"})));
        calls.push(("annotate", json!({"path": ptx, "arch": arch, "ptxas": "13.4", "lines": "20.."})));
    }
    let mut client = std::process::Command::new(python);
    client.arg(root("scripts/mcp-client")).arg(program().get_program()).current_dir(root(""));
    for (name, value) in program().get_envs() {
        match value {
            Some(value) => client.env(name, value),
            None => client.env_remove(name),
        };
    }
    let mut client = client.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    client.stdin.take().unwrap().write_all(json!(calls).to_string().as_bytes()).unwrap();
    let output = client.wait_with_output().unwrap();
    assert!(output.status.success());
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["name"], "ptxinspect");
    assert_eq!(said["tools"]["inspect"]["required"], json!(["path"]));
    let answers = said["answers"].as_array().unwrap();
    assert_eq!(answers.len(), calls.len());
    for ((name, arguments), answer) in calls.iter().zip(answers) {
        assert_eq!(answer["error"], false, "{name} {arguments}: {answer}");
        let tokens = answer["tokens"].as_u64().unwrap();
        assert!((10..=TOKENS).contains(&tokens), "{name} {arguments}: {tokens} tokens\n{}", answer["text"]);
    }
}
