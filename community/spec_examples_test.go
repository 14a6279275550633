package community_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// specExamples lists the Swift examples of the spec: the chapter, how many lines the example has that are not blank, and the
// declarations that say the same in Go, each as FILE:NAME, or as NAME in the file of the one before.
var specExamples = []struct {
	chapter string
	lines   int
	places  string
}{
	{"swiftagent, basic patterns", 55, "agent/step/spec_example_test.go:ExampleSession ExampleGenerateText agent/step/example_test.go:ExampleMemory crawlerConfig crawlerConfig.Default ExampleWith ExampleGenerate agent/tool/example_test.go:ExampleNew"},
	{"swiftagent, Memory and Relay", 22, "agent/step/spec_example_test.go:ExampleRelay"},
	{"swiftagent, Pipeline and Gate", 34, "agent/step/spec_example_test.go:ExampleGate ExamplePipeline_gates"},
	{"swiftagent, Event", 20, "agent/step/spec_example_test.go:sessionStarted sessionEnded ExampleEmitBefore"},
	{"swiftagent, Context", 24, "agent/step/spec_example_test.go:shelf shelf.Default ExampleValue"},
	{"swiftagent, @Contextable", 11, "agent/step/example_test.go:crawlerConfig crawlerConfig.Default ExampleWith"},
	{"swiftagent, several contexts", 4, "agent/step/spec_example_test.go:ExampleWith_several"},
	{"swiftagent, ContextKey", 15, "agent/step/spec_example_test.go:ExampleReader"},
	{"swiftagent, Conversation", 6, "agent/conversation/spec_example_test.go:ExampleNew"},
	{"swiftagent, session delegate", 13, "agent/conversation/spec_example_test.go:ExampleConfig_newSession"},
	{"swiftagent, message queue", 6, "agent/conversation/spec_example_test.go:ExampleConversation_Send"},
	{"swiftagent, Steering", 5, "agent/conversation/spec_example_test.go:ExampleConversation_Steer"},
	{"swiftagent, session replacement", 5, "agent/conversation/spec_example_test.go:ExampleConversation_Replace"},
	{"swiftagent, Skills", 7, "agent/node/spec_example_test.go:Example_discoverSkills"},
	{"swiftagent, SkillTool", 5, "agent/tool/skill/example_test.go:ExampleTools"},
	{"swiftagent, MCP", 11, "agent/tool/mcp/example_test.go:ExampleLoad"},
	{"swiftagent, protocols", 15, "community/agent.go:Agent Terminator Replicator"},
	{"swiftagent, community", 41, "community/example_test.go:WorkSignal Work WorkerAgent NewWorkerAgent WorkerAgent.Terminate ExampleCommunity"},
	{"swiftagent, ReplicateTool", 16, "agent/tool/replicate/replicate.go:Name args Tools replicas.replicate"},
	{"swiftagent, a replicable agent", 15, "agent/tool/replicate/example_test.go:worker worker.Replicate ExampleTools"},
	{"swiftagent, AgentTools", 9, "agent/tool/builtin/example_test.go:ExampleNew"},
	{"swiftagent, Security", 18, "agent/example_test.go:ExampleOrder_WithSecurity"},
	{"swiftagent, PermissionConfiguration", 13, "security/permission/example_test.go:ExampleConfig"},
	{"swiftagent, SandboxExecutor", 8, "security/sandbox/example_test.go:ExamplePolicy"},
	{"swiftagent, Guardrail", 35, "agent/step/spec_example_test.go:ExampleGuardrail_rules ExampleGuardrail_presets"},
	{"swiftagent, nested guardrails", 23, "agent/step/example_test.go:ExampleGuardrail"},
	{"swiftagent, settings by the context", 5, "agent/step/spec_example_test.go:ExampleGuardrail_sandbox"},
	{"swiftagent, Race", 12, "agent/step/spec_example_test.go:ExampleTimeout agent/step/example_test.go:ExampleRace"},
	{"swiftagent, Parallel", 14, "agent/step/example_test.go:ExampleParallel"},
	{"skills-swiftagent 4.8, SkillPermissions", 6, "skills/example_test.go:ExampleRegistry_Granted"},
	{"skills-swiftagent 9.1, basic usage", 16, "agent/node/spec_example_test.go:Example_skills"},
	{"skills-swiftagent 9.2, registration", 12, "agent/node/spec_example_test.go:Example_registerSkill"},
	{"skills-swiftagent 9.3, search paths", 9, "agent/node/spec_example_test.go:Example_skillDirs"},
	{"skills-swiftagent 10.3, allowed-tools", 5, "skills/example_test.go:ExampleRegistry_Activate"},
	{"skills-swiftagent 10.3, SkillPermissions", 8, "agent/tool/skill/example_test.go:ExampleTools"},
}

// TestSpecExamples checks that each example of the spec has its place in Go, which has at most 1.2 times its lines. What
// an example uses without defining it, such as a model, Go has beside it, and it does not count. Listings of the insides of
// Swift types (Community, SymbioActorSystem, and chapters 4 to 8 of the skills) are no examples.
func TestSpecExamples(t *testing.T) {
	files := map[string]map[string]int{}
	var swift, inGo int
	for _, e := range specExamples {
		var file string
		sum := 0
		for place := range strings.FieldsSeq(e.places) {
			name := place
			if before, after, found := strings.Cut(place, ":"); found {
				file, name = before, after
			}
			if files[file] == nil {
				files[file] = declaredLines(t, "../"+file)
			}
			n, found := files[file][name]
			if !found {
				t.Errorf("%s: there is no %s in %s", e.chapter, name, file)
			}
			sum += n
		}
		if sum > e.lines*6/5 {
			t.Errorf("%s: %d lines in Swift, %d in Go (%s)", e.chapter, e.lines, sum, e.places)
		}
		swift, inGo = swift+e.lines, inGo+sum
		t.Logf("%-45s %3d %3d  %s", e.chapter, e.lines, sum, e.places)
	}
	t.Logf("%d examples, %d lines in Swift, %d in Go", len(specExamples), swift, inGo)
}

// TestWholeAgentIsShort keeps an agent with tools, security and skills as short as a first program has to be.
func TestWholeAgentIsShort(t *testing.T) {
	const path = "../agent/node/agent_example_test.go"
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	if lines := declaredLines(t, path)["Example_agent"]; lines == 0 || lines > 15 || len(f.Imports) > 6 {
		t.Errorf("%s: %d lines and %d imports, at most 15 and 6", path, lines, len(f.Imports))
	}
}

// declaredLines returns how many lines the declarations of a file have, without blank ones: of an Example those of its body
// above the output, of any other declaration all without its doc comment.
func declaredLines(t *testing.T, path string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
		return map[string]int{}
	}
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, path, text, 0)
	if err != nil {
		t.Fatal(err)
	}
	count := func(from, to token.Pos) (n int) {
		code, _, _ := strings.Cut(string(text[files.Position(from).Offset:files.Position(to).Offset]), "// Output")
		for line := range strings.Lines(code) {
			if strings.TrimSpace(line) != "" {
				n++
			}
		}
		return n
	}
	lines := map[string]int{}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					lines[s.Name.Name] = count(s.Pos(), s.End())
				case *ast.ValueSpec:
					lines[s.Names[0].Name] = count(s.Pos(), s.End())
				}
			}
		case *ast.FuncDecl:
			name := d.Name.Name
			if strings.HasPrefix(name, "Example") {
				lines[name] = count(d.Body.Lbrace+1, d.Body.Rbrace)
				continue
			}
			if d.Recv != nil {
				receiver := d.Recv.List[0].Type
				if star, pointer := receiver.(*ast.StarExpr); pointer {
					receiver = star.X
				}
				name = receiver.(*ast.Ident).Name + "." + name
			}
			lines[name] = count(d.Pos(), d.End())
		}
	}
	return lines
}
