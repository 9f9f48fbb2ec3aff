//! The functions of this crate as tools of an agent: the Model Context Protocol over standard input and output.
//!
//! In: calls with JSON arguments. Out: text of at most [`answer::TOKENS`] tokens, what matters first, which says what it leaves out and how to
//! ask for it. It computes nothing of its own. A tool reads files and compiles PTX with a managed ptxas; nothing that an agent says decides
//! which program runs, or names a file for ptxas to read or write. Calls run on threads of their own, beside the one that talks.

mod answer;
mod arguments;
mod tools;

use anyhow::{Context, Result, anyhow};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, ServerInitializeError};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};

use self::arguments::Failure;

/// What an agent is told before it calls anything.
const INSTRUCTIONS: &str = "\
ptxinspect says what NVIDIA's ptxas makes of a GPU kernel: registers and what capped them, spills, occupancy, barriers that hang. It needs no GPU.
Start with `inspect` on a .ptx, a .cubin, or a library, wheel or folder that holds them: kernels come worst first, and the first sentences of each say what \
matters. Then `annotate` the PTX lines that it names to see the code they became and who holds the registers there, `explain` a code (C7508, PI203), \
and after a change `diff` old against new. `occupancy` is a calculator and needs no file.
Line numbers are PTX lines. PTX is compiled for its .target unless `arch` is given (sm_90a): give the GPU you mean. `ptxas` is a version (13.4), \
installed on first use. Paths are relative to the folder the server was started in.
Answers have at most 1,500 tokens; what was left out is said at the end, with the arguments that show it. `null`, `?` and \"not known\" mean not known, not zero.";

/// Calls that are worked on at once; more wait. The threads that read and write standard streams count, too.
const THREADS: usize = 6;

struct Server;

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let itself = Implementation::new("ptxinspect", env!("CARGO_PKG_VERSION"));
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities).with_server_info(itself).with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::TOOLS.iter().map(tools::Tool::described).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = tools::TOOLS.iter().find(|tool| tool.name == request.name) else {
            let names: Vec<&str> = tools::TOOLS.iter().map(|tool| tool.name).collect();
            let message = format!("there is no tool '{}': expected {}", request.name, names.join(", "));
            return Err(ErrorData::invalid_params(message, None));
        };
        let arguments = request.arguments.unwrap_or_default();
        let answered = tokio::task::spawn_blocking(move || (tool.call)(arguments)).await;
        let answered = answered.unwrap_or_else(|error| Err(Failure::internal(&error)));
        Ok(match answered {
            Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
            Err(failure) => {
                let mut result = CallToolResult::error(vec![ContentBlock::text(failure.text())]);
                result.structured_content = Some(failure.structured());
                result
            }
        }
        .into())
    }
}

/// Answers until the other side leaves.
pub fn serve() -> Result<()> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().max_blocking_threads(THREADS).build().context("cannot start to serve")?;
    let served = runtime.block_on(async {
        let streams = (tokio::io::stdin(), tokio::io::stdout());
        match Server.serve(streams).await {
            Ok(service) => service.waiting().await.map(drop).map_err(|error| anyhow!("the server ended: {error}")),
            // Whoever leaves before the first word is as welcome to as after the last.
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(anyhow!("the agent does not speak the Model Context Protocol: {error}")),
        }
    });
    // A thread waits for input that nobody will send, and calls may be at work for nobody.
    runtime.shutdown_background();
    served
}
