//! The tools: what each does and takes, as clients and the documentation list them, and a call with its arguments checked.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::jsonrpc::{INVALID_PARAMS, RpcError, echo};
use super::protocol::{Era, Feature};
use trainmon_profiles::asked::ProfileWindow;
use trainmon_sample::process::PID_MAX;

/// `diagnose` watches no longer, seconds.
const WATCH_MAX_S: u32 = 600;

/// One tool.
#[derive(Debug)]
pub struct ToolSpec {
    /// Its name.
    pub name: &'static str,
    /// The same for a person.
    title: &'static str,
    /// What it does and gives.
    pub description: &'static str,
    /// Its arguments.
    pub arguments: &'static [Argument],
    /// The JSON schema of its result, as JSON.
    output: &'static str,
    /// Whether a job does not notice it.
    only_reads: bool,
}

/// One argument of a tool.
#[derive(Debug)]
pub struct Argument {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub description: &'static str,
    /// Whether the tool needs it.
    pub required: bool,
    kind: ArgumentKind,
}

#[derive(Debug)]
enum ArgumentKind {
    Text,
    /// From 1 to this.
    Number(u32),
}

const fn text(name: &'static str, description: &'static str, required: bool) -> Argument {
    Argument { name, description, required, kind: ArgumentKind::Text }
}

const fn number(name: &'static str, description: &'static str, most: u32) -> Argument {
    Argument { name, description, required: false, kind: ArgumentKind::Number(most) }
}

/// All of them.
pub const TOOLS: &[ToolSpec] = &[
    ToolSpec {
        name: "list",
        title: "List training processes",
        description: "Find the processes of this machine that may be training, GPU users first: PID, user, command, age, CPU use, \
            GPU memory, data-loader workers.",
        arguments: &[],
        output: include_str!("schemas/list.json"),
        only_reads: true,
    },
    ToolSpec {
        name: "diagnose",
        title: "Diagnose a training job",
        description: "Watch a running job, or read a recording or a trace of torch.profiler, and say what holds it back: the cause \
            with its confidence, evidence, wait chain, workers, and advice with its gain; of a trace also what ran on the GPU (the \
            first 10 rows of each table). The job is not changed.",
        arguments: &[
            number("pid", "The process to watch, with all that it starts. Give this or `replay`.", PID_MAX),
            number(
                "duration_s",
                "Seconds to watch, 20 unless given. The first verdict needs a few, a sure one 10 to 30.",
                WATCH_MAX_S,
            ),
            text(
                "replay",
                "Path of a recording made by `trainmon record`, or of a trace of torch.profiler, instead of `pid`.",
                false,
            ),
        ],
        output: include_str!("schemas/diagnose.json"),
        only_reads: true,
    },
    ToolSpec {
        name: "profile",
        title: "Profile a running job",
        description: "Take a profile of a running job through torch's own profiler, and say what holds the job back: as `diagnose`, with \
            what ran on the GPU (the first 10 rows of each table). Its steps are slower while it records; its code and its files stay as \
            they are. The job must have been started by `trainmon run`, or with KINETO_USE_DAEMON=1. Ask the user first.",
        arguments: &[
            Argument { required: true, ..number("pid", "The process to ask.", PID_MAX) },
            text("allowed", "`yes`, once the user has allowed it.", true),
            number("length_ms", "Milliseconds to record, 500 unless given.", 60_000),
            number("steps", "Steps of the optimizer to record, instead of `length_ms`.", 1000),
        ],
        output: include_str!("schemas/diagnose.json"),
        only_reads: false,
    },
    ToolSpec {
        name: "explain",
        title: "Explain a cause",
        description: "What a cause of a verdict means, how it is recognized, its limits, and what to do. Without an argument: a \
            list of all causes.",
        arguments: &[text("cause", "A cause, a class, or class/cause; `chain` explains the wait chain.", false)],
        output: include_str!("schemas/explain.json"),
        only_reads: true,
    },
    ToolSpec {
        name: "doctor",
        title: "Check what can be read",
        description: "What trainmon can read on this machine, what it cannot, and the command that fixes it.",
        arguments: &[number("pid", "Also check the access to this process.", PID_MAX)],
        output: include_str!("schemas/doctor.json"),
        only_reads: true,
    },
    ToolSpec {
        name: "report",
        title: "Report on a run",
        description: "A whole run as Markdown: its verdicts over time, cost, advice, wait chain, workers, environment. Of a trace: \
            its verdict, and the first 10 rows of each table.",
        arguments: &[text(
            "file",
            "Path of a recording made by `trainmon record`, of a log made by `trainmon --log`, or of a trace of torch.profiler.",
            true,
        )],
        output: include_str!("schemas/report.json"),
        only_reads: true,
    },
    ToolSpec {
        name: "compare",
        title: "Compare two runs",
        description: "What changed between two runs, and by how much: step time with its 99% interval, verdicts, workers, \
            resources, environment. Of two traces: what each part of a step contributes to the change, and the 10 kernels, operators, \
            calls, copies and collectives that changed most.",
        arguments: &[
            text("before", "Path of the recording, log or trace of the first run.", true),
            text("after", "Path of the recording, log or trace of the second run: a trace only with a trace.", true),
        ],
        output: include_str!("schemas/compare.json"),
        only_reads: true,
    },
];

impl ToolSpec {
    /// The tool as `tools/list` shows it.
    fn listed(&self, era: Era) -> Value {
        let properties: Map<String, Value> = self.arguments.iter().map(|argument| {
            let schema = match argument.kind {
                ArgumentKind::Text => json!({ "type": "string", "description": argument.description }),
                ArgumentKind::Number(most) => {
                    json!({ "type": "integer", "minimum": 1, "maximum": most, "description": argument.description })
                }
            };
            (argument.name.to_owned(), schema)
        }).collect();
        let required: Vec<_> = self.arguments.iter().filter(|one| one.required).map(|one| one.name).collect();
        let mut tool = json!({
            "name": self.name,
            "description": self.description,
            "inputSchema": {
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": false,
            },
        });
        let Some(listed) = tool.as_object_mut() else { return tool };
        if era.knows(Feature::Annotations) {
            let annotations = json!({
                "title": self.title,
                "readOnlyHint": self.only_reads,
                "destructiveHint": false,
                "idempotentHint": true,
                "openWorldHint": false,
            });
            listed.insert("annotations".to_owned(), annotations);
        }
        if era.knows(Feature::StructuredContent) {
            listed.insert("title".to_owned(), self.title.into());
            listed.insert("outputSchema".to_owned(), serde_json::from_str(self.output).unwrap_or_default());
        }
        tool
    }
}

/// The result of `tools/list`.
pub fn list(era: Era) -> Value {
    json!({ "tools": TOOLS.iter().map(|tool| tool.listed(era)).collect::<Vec<_>>() })
}

/// What `diagnose` looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Watched {
    /// A process, for so long if that was said.
    Process(u32, Option<Duration>),
    /// A recording, or a trace.
    Recording(PathBuf),
}

/// A call with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolCall {
    /// `list`.
    List,
    /// `diagnose`.
    Diagnose(Watched),
    /// `profile` of a process, which the user has allowed.
    Profile(u32, ProfileWindow),
    /// `explain`, a cause or all.
    Explain(Option<String>),
    /// `doctor`, also for this process.
    Doctor(Option<u32>),
    /// `report` on this file.
    Report(PathBuf),
    /// `compare`, the first run with the second.
    Compare(PathBuf, PathBuf),
}

impl ToolCall {
    /// The call that the parameters of `tools/call` ask for; or what is wrong with the arguments, in one line, which an agent
    /// can act on.
    ///
    /// # Errors
    /// There is no such tool, or the parameters are of another kind.
    pub(crate) fn from_params(params: &Map<String, Value>) -> Result<Result<Self, String>, RpcError> {
        let refuse = |message: &str| RpcError::new(INVALID_PARAMS, message);
        let name = params.get("name").and_then(Value::as_str);
        let name = name.ok_or_else(|| refuse("`name` must be the name of a tool"))?;
        let tool = TOOLS.iter().find(|tool| tool.name == name);
        let tool = tool.ok_or_else(|| refuse(&format!("no tool is called `{}`", echo(name))))?;
        let arguments = match params.get("arguments") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(arguments)) => arguments.clone(),
            Some(_) => return Err(refuse("`arguments` must be an object")),
        };
        Ok(tool.check(&arguments).and_then(|()| Self::from_arguments(name, &arguments)))
    }

    /// The call with arguments that were checked.
    fn from_arguments(tool: &str, arguments: &Map<String, Value>) -> Result<Self, String> {
        let text = |name: &str| arguments.get(name).and_then(Value::as_str).map(str::to_owned);
        let path = |name: &str| text(name).map(PathBuf::from).unwrap_or_default();
        let number =
            |name: &str| arguments.get(name).and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok());
        Ok(match tool {
            "diagnose" => Self::Diagnose(match (number("pid"), number("duration_s"), text("replay")) {
                (Some(pid), seconds, None) => {
                    Watched::Process(pid, seconds.map(|seconds| Duration::from_secs(seconds.into())))
                }
                (None, None, Some(_)) => Watched::Recording(path("replay")),
                (_, _, Some(_)) => {
                    return Err("`pid` and `duration_s` have no effect on a file: give `replay` alone".to_owned());
                }
                _ => {
                    return Err(
                        "give `pid` (the tool `list` finds it), or `replay` for a recording or a trace".to_owned()
                    );
                }
            }),
            "profile" => {
                if text("allowed").as_deref() != Some("yes") {
                    let why = "the job is slower while it records: ask the user, and then give `allowed` as `yes`";
                    return Err(why.to_owned());
                }
                let window = match (number("steps"), number("length_ms")) {
                    (Some(steps), _) => ProfileWindow::Steps(steps),
                    (None, Some(ms)) => ProfileWindow::For(Duration::from_millis(ms.into())),
                    (None, None) => ProfileWindow::default(),
                };
                Self::Profile(number("pid").unwrap_or_default(), window)
            }
            "explain" => Self::Explain(text("cause")),
            "doctor" => Self::Doctor(number("pid")),
            "report" => Self::Report(path("file")),
            "compare" => Self::Compare(path("before"), path("after")),
            _ => Self::List,
        })
    }
}

impl ToolSpec {
    /// Whether these are arguments of the tool.
    fn check(&self, arguments: &Map<String, Value>) -> Result<(), String> {
        for (name, value) in arguments {
            let known = self.arguments.iter().find(|argument| argument.name == name);
            let known = known.ok_or_else(|| format!("no argument is called `{}`", echo(name)))?;
            match known.kind {
                ArgumentKind::Text if value.is_string() => {}
                ArgumentKind::Text => return Err(format!("`{name}` must be a text")),
                ArgumentKind::Number(most)
                    if value.as_u64().is_some_and(|value| (1..=most.into()).contains(&value)) => {}
                ArgumentKind::Number(most) => {
                    return Err(format!("`{name}` must be a whole number from 1 to {most}"));
                }
            }
        }
        let missing =
            self.arguments.iter().find(|argument| argument.required && !arguments.contains_key(argument.name));
        missing.map_or(Ok(()), |argument| Err(format!("`{}` is missing", argument.name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, arguments: Value) -> Result<ToolCall, String> {
        let params = json!({ "name": name, "arguments": arguments });
        ToolCall::from_params(params.as_object().unwrap()).unwrap()
    }

    #[test]
    fn arguments_are_checked() {
        assert_eq!(call("list", json!({})), Ok(ToolCall::List));
        let recorded = ProfileWindow::For(Duration::from_millis(500));
        let allowed = json!({ "pid": 7, "allowed": "yes" });
        assert_eq!(call("profile", allowed), Ok(ToolCall::Profile(7, recorded)));
        let steps = json!({ "pid": 7, "allowed": "yes", "steps": 3 });
        assert_eq!(call("profile", steps), Ok(ToolCall::Profile(7, ProfileWindow::Steps(3))));
        let process = |pid, seconds: Option<u64>| {
            Ok(ToolCall::Diagnose(Watched::Process(pid, seconds.map(Duration::from_secs))))
        };
        assert_eq!(call("diagnose", json!({ "pid": 7 })), process(7, None));
        assert_eq!(call("diagnose", json!({ "pid": 7, "duration_s": 600 })), process(7, Some(600)));
        assert!(matches!(
            call("diagnose", json!({ "replay": "x.tmz" })),
            Ok(ToolCall::Diagnose(Watched::Recording(_)))
        ));
        for (name, arguments, said) in [
            ("list", json!({ "x": 1 }), "no argument is called `x`"),
            ("diagnose", json!({}), "give `pid`"),
            ("diagnose", json!({ "pid": 0 }), "from 1 to 4194304"),
            ("diagnose", json!({ "pid": -1 }), "whole number"),
            ("diagnose", json!({ "pid": "7" }), "whole number"),
            ("diagnose", json!({ "replay": 7 }), "must be a text"),
            ("diagnose", json!({ "pid": 7, "duration_s": 601 }), "from 1 to 600"),
            ("diagnose", json!({ "pid": 7, "replay": "x" }), "`replay` alone"),
            ("doctor", json!({ "pid": 9_999_999 }), "from 1 to"),
            ("profile", json!({ "pid": 7 }), "`allowed` is missing"),
            ("profile", json!({ "pid": 7, "allowed": "no" }), "ask the user"),
            ("profile", json!({ "allowed": "yes" }), "`pid` is missing"),
            ("report", json!({}), "`file` is missing"),
            ("compare", json!({ "before": "x" }), "`after` is missing"),
        ] {
            let refused = call(name, arguments).unwrap_err();
            assert!(refused.contains(said), "{refused}");
        }
    }

    #[test]
    fn what_is_no_call_is_an_error_of_the_protocol() {
        for params in
            [json!({}), json!({ "name": 7 }), json!({ "name": "kill" }), json!({ "name": "list", "arguments": [] })]
        {
            assert_eq!(
                ToolCall::from_params(params.as_object().unwrap()).unwrap_err().code,
                INVALID_PARAMS,
                "{params}"
            );
        }
    }

    #[test]
    fn every_tool_is_listed_and_can_be_called() {
        let listed = list(Era::Stateless);
        for tool in listed["tools"].as_array().unwrap() {
            let name = tool["name"].as_str().unwrap();
            let arguments: Map<String, Value> = tool["inputSchema"]["required"]
                .as_array()
                .unwrap()
                .iter()
                .map(|name| (name.as_str().unwrap().to_owned(), json!("x")))
                .collect();
            let called = call(name, Value::Object(arguments));
            // These need a PID, or a file, and a word of the user's.
            assert!(called.is_ok() || ["diagnose", "profile"].contains(&name), "{called:?}");
            assert_eq!(tool["annotations"]["readOnlyHint"], name != "profile");
        }
    }

    #[test]
    fn every_tool_has_a_schema_of_its_result_for_clients_that_know_it() {
        for tool in list(Era::Session("2025-06-18"))["tools"].as_array().unwrap() {
            let schema = &tool["outputSchema"];
            assert_eq!(schema["type"], "object", "{tool}");
            let properties = schema["properties"].as_object().unwrap();
            let required = schema["required"].as_array().unwrap();
            assert!(
                !required.is_empty() && required.iter().all(|key| properties.contains_key(key.as_str().unwrap()))
            );
        }
        for (version, has_annotations) in [("2025-03-26", true), ("2024-11-05", false)] {
            for tool in list(Era::Session(version))["tools"].as_array().unwrap() {
                assert_eq!(tool.get("annotations").is_some(), has_annotations, "{version}");
                assert!(tool.get("outputSchema").is_none() && tool.get("title").is_none(), "{version}: {tool}");
            }
        }
    }
}
