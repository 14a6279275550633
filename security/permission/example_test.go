package permission_test

import (
	"fmt"

	"gopkg.in/yaml.v3"

	"symbio/security/permission"
)

// A child may do what its own rules and its parent's allow.
func ExampleChain() {
	parent, err := permission.Config{Preset: "read_only"}.Policy()
	if err != nil {
		fmt.Println(err)
		return
	}
	child, err := permission.Config{Allow: permission.Rules("Write"), Deny: permission.Rules("Read(*.key)")}.Policy()
	if err != nil {
		fmt.Println(err)
		return
	}
	chain := permission.Chain{{Name: "parent", Policy: parent}, {Name: "child", Policy: child}}
	for _, c := range []permission.Call{
		{Tool: "Read", Args: map[string]any{"file_path": "a.txt"}, Dir: "/work"},
		{Tool: "Read", Args: map[string]any{"file_path": "a.key"}, Dir: "/work"},
		{Tool: "Write", Args: map[string]any{"file_path": "a.txt"}, Dir: "/work"},
	} {
		v := chain.Judge(c)
		fmt.Println(c.Tool, v.Action, "by", v.Link+":", v.Why)
	}
	// Output:
	// Read allow by parent: The rule Read allows this.
	// Read deny by child: The rule Read(*.key) denies this.
	// Write deny by parent: The rule Edit denies this and cannot be overridden.
}

func ExampleConfig() {
	config := permission.Config{
		Preset:        "none", // the rules below, and no others
		Allow:         permission.Rules("Read", "Bash(git:*)"),
		Deny:          permission.Rules("Bash(rm -rf:*)"), // a child's override lifts it
		FinalDeny:     permission.Rules("Bash(sudo:*)"),   // nothing lifts it
		Default:       "ask",
		SessionMemory: new(true),
	}
	var file permission.Config
	err := yaml.Unmarshal([]byte("allow: [Read, Glob]"), &file)
	fmt.Println(len(file.Allow), err)
	policy, err := config.Merge(file).Policy()
	fmt.Println(policy.Allow, policy.Default, err)
	// Output:
	// 2 <nil>
	// [Read Bash(git:*) Glob] ask <nil>
}
