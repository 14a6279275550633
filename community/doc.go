// Package community makes the agents of several machines one community: every member can be seen, sent
// signals and asked for capabilities, on whichever machine it lives.
//
// The one idea: a community is one machine's view of everyone. Its own agents are actors of this
// process. The members of other nodes are what an authenticated peer says of itself, for as long
// as the connection it said it over lasts: a lease.
//
//	  Spawn  Terminate          Send  Invoke         Subscribe  Members
//	       |                       |                        |
//	.------v-----------------------v------------------------v------.
//	|  localNode                   |  remoteNodes                  |
//	|    agents, and capabilities  |    their leases, members and  |
//	|    that it offers            |    capabilities               |
//	'------^-----------------------^-----------------------|-------'
//	       | Serve                 | Attach: a Lease       | Invoke
//	.------|-----------------------|-----------------------v-------.
//	|      Network: transport/grpcpeer                             |
//	'--------------------------------------------------------------'
//
// Guarantees. Every operation ends in a result or a typed error (errors.go), and none waits for a
// peer longer than the Network takes to notice that it is lost. An agent gets one signal at a time, in
// the order in which they were accepted. Changes reach each subscriber in the order in which they
// happened; a subscriber that falls behind is told so, and given the whole list anew. All methods may be
// called by many goroutines at once, also from within an agent's Receive. Nothing is delivered
// twice, and nothing is retried. A provider sees only input that fits the schema it announced. The size of
// a payload is checked once at each node, where it leaves or comes in, and so is its schema. A caller that
// listens to a call (InvokeStream) can hold up nothing but that call's output.
//
// It does not find nodes, prove their identity, or carry bytes (that is the Network), decide
// what an agent may do with tools (security/permission), or remember anything after Run has ended.
//
// # The spec's names
//
// The system is specified for Swift; spec_examples_test.go lists where its examples are in Go. Most public names are the same
// here (Community, Member, Step, Pipeline, Gate, Race, Memory, Relay, EventBus, Conversation). These are called otherwise:
//
//	spec                             here                              why
//	Communicable                     community.Agent                   what lives in a community is called an agent everywhere else
//	Communicable.receive             Agent.Receive, Handlers.Receive   bytes below, Go values with Perception.Receive
//	Perception                       community.Perception              a typed name; Send, Tell and Receive are its methods
//	Terminatable, Replicable         Terminator, Replicator            Go names an interface of one method by its verb
//	CommunityChange, changes         Change, Community.Subscribe       any number of subscribers, each with a queue and gap marks
//	invoke                           Community.Invoke, InvokeStream    the second gets updates before the answer
//	SymbioActorSystem                actor.System                      actors are local; calls between nodes are not actor messages
//	ActorRegistry.find               System.Lookup
//	Address, agent.id.hexString      community.MemberID                32 hex digits, drawn at random; a node's is of its key
//	PeerConnector                    community.Network                 an interface; grpcpeer.Network is the one of a LAN
//	Transport, mDNS, BLE             discovery.Source                  finding is apart from carrying, which is gRPC alone
//	Step.body, @StepBuilder          step.Pipeline, step.Chain2        functions put steps together
//	EmptyStep, AnyStep               step.Empty, step.Any              no stutter
//	TracingStep, Monitor             step.Trace, step.Monitor
//	Map, Parallel, limits            step.Map, step.Parallel           the first argument says how many run at once
//	@Session, .session()             step.Session, step.With           one way to put a value around steps
//	@Context, .context()             step.Value, step.With             the context of Go
//	@Contextable, defaultValue       step.Contextable                  a method Default; without one it does not compile
//	ContextKey                       step.Reader                       for types of other packages, with their default
//	$memory                          Memory.Relay
//	Relay(get:set:)                  step.NewRelay
//	Relay.map, readOnly, constant    MapRelay, ReadOnly, Constant      a method cannot have types of its own in Go
//	insert, contains, formUnion      step.Insert, Contains, Union
//	increment, decrement, add        step.Add                          of 1 and of -1
//	GateResult.pass, .block          step.Block                        an error; what passes is the value returned
//	.emit(on:)                       step.EmitBefore, EmitAfter
//	Race(timeout:)                   step.Timeout                      around any step
//	ParallelError.allStepsFailed     step.ErrAllStepsFailed            a sentinel for errors.Is
//	.guardrail, Deny.final           step.Guardrail, DenyFinal         the rules are texts, as in files: "Bash(rm:*)"
//	@Generable, @Guide               llm.FormFor                       tags of a struct: json and jsonschema
//	LanguageModelSession             llm.Model, Conversation           a model answers requests; a conversation keeps the messages
//	context.inspect                  agents.inspect, Factory.Inspect   other nodes need it named in authorize, as agents.steer
//	MiddlewarePipeline               agent.Middleware                  a function type for each stage: context, model, tool
//	replaceSession(with:)            Conversation.Replace
//	LanguageModelSessionDelegate     conversation.Config.NewSession    a function from the present session to the next
//	pendingSteeringCount             Conversation.PendingSteering
//	AgentToolsProvider               builtin.New, Workspace            all tools of one directory
//	tool(named:), tools(for:)        tool.Named                        a preset is a name, too: preset:read_only
//	MCPClientManager, MCPClient      mcp.Manager, mcp.Server
//	loadDefault, allTools            mcp.Load, Manager.AllTools        the file is named, and the Manager closed
//	SkillRegistry                    skills.Registry                   activation, grants and the catalog have one owner
//	PermissionConfiguration          permission.Config, Policy         the text of a file, and what is made of it
//	SecurityConfiguration            security.Config                   with the presets Standard, Development, Restrictive, ReadOnly
//	withSecurity                     Order.WithSecurity, builtin.New   the rules are the agent's, the sandbox is its tools'
//	CLIPermissionHandler             security.Terminal                 a Handler is a function
//	CodingConfiguration              node.Config, node.Run             a node has the model, tools, rules and skills of its agents
//	enableSessionMemory              Config.SessionMemory
//	SandboxExecutor.Configuration    sandbox.Policy                    enforced on Linux too
package community
