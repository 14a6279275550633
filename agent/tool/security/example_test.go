package security_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/agent/tool/builtin"
	"symbio/agent/tool/security"
	"symbio/security/permission"
)

// One value holds the rules, the sandbox and who is asked. For an agent, agent.Order.WithSecurity takes it.
func Example() {
	dir, err := os.MkdirTemp("", "work")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	s := security.Standard().WithHandler(security.Terminal(strings.NewReader("y\n"), os.Stdout)) // of a person: os.Stdin
	s.Permissions.Deny = permission.Rules("Write(.env)")

	work, err := builtin.New(builtin.Config{Dir: dir, Security: s})
	if err != nil {
		panic(err)
	}
	defer work.Close()
	policy, err := s.Permissions.Policy()
	if err != nil {
		panic(err)
	}
	set := tool.NewSet(tool.SetConfig{Guard: permission.Chain{{Policy: policy}}, Ask: s.Handler, Agent: "ann", Dir: dir}, work.Tools()...)
	for _, r := range set.Run(context.Background(), []llm.ToolCall{{Name: "Write", Args: llm.Args(`{"file_path": "a.txt", "content": "hello"}`)}}) {
		fmt.Println(r.Text)
	}
	// Output:
	// ann wants to call Write {"content":"hello","file_path":"a.txt"}
	// No rule matches this call. A person must approve it.
	// Allow it? y = once, a = always in this session, n = no, b = block always in this session
	// > Created a.txt: 5 bytes, 0 lines.
}
