package telemetry

// The names of OpenTelemetry's conventions for generative AI, which are still in development. They have
// a repository of their own without versions (open-telemetry/semantic-conventions-genai, here as of
// August 2026); the last ones with a version come from the semantic conventions 1.41.
const (
	aiOperation      = "gen_ai.operation.name"
	aiProvider       = "gen_ai.provider.name"
	aiRequestModel   = "gen_ai.request.model"
	aiResponseModel  = "gen_ai.response.model"
	aiFinishReasons  = "gen_ai.response.finish_reasons"
	aiInputTokens    = "gen_ai.usage.input_tokens"
	aiOutputTokens   = "gen_ai.usage.output_tokens"
	aiCacheRead      = "gen_ai.usage.cache_read.input_tokens"
	aiTokenType      = "gen_ai.token.type"
	aiAgentID        = "gen_ai.agent.id"
	aiAgentName      = "gen_ai.agent.name"
	aiConversation   = "gen_ai.conversation.id"
	aiToolName       = "gen_ai.tool.name"
	aiToolCall       = "gen_ai.tool.call.id"
	aiToolArguments  = "gen_ai.tool.call.arguments"
	aiToolResult     = "gen_ai.tool.call.result"
	aiInstructions   = "gen_ai.system_instructions"
	aiInputMessages  = "gen_ai.input.messages"
	aiOutputMessages = "gen_ai.output.messages"

	// The operations.
	invokeAgent = "invoke_agent"
	executeTool = "execute_tool"
	chat        = "chat"

	// The metrics.
	tokenUsage        = "gen_ai.client.token.usage"
	operationDuration = "gen_ai.client.operation.duration"
	agentDuration     = "gen_ai.invoke_agent.duration"
	toolDuration      = "gen_ai.execute_tool.duration"

	// captureContent is the variable that asks for the content of messages and calls in spans.
	captureContent = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
)

// Our own names, and the one of the general conventions, which is stable.
const (
	errorType     = "error.type"
	scope         = "symbio" // of the instruments, and the default of service.name
	ownPeer       = "symbio.peer.id"
	ownCapability = "symbio.capability"
)
