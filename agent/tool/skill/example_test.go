package skill_test

import (
	"context"
	"fmt"
	"testing/fstest"

	"symbio/actor"
	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/agent/tool/skill"
	"symbio/security/permission"
	"symbio/skills"
)

// gitSkills is a registry with one skill, and its end.
func gitSkills() (*skills.Registry, func()) {
	sys := actor.NewSystem(actor.Config{})
	registry, err := skills.NewRegistry(sys, skills.Config{Bundled: fstest.MapFS{
		"git-workflow/SKILL.md": {Data: []byte("---\nname: git-workflow\ndescription: Works with git.\nallowed-tools: Bash(git:*) Read\n---\nCommit often.\n")},
	}})
	if err != nil {
		panic(err)
	}
	return registry, func() { _ = sys.Shutdown(context.Background()) }
}

// A skill that the model takes brings its allowed-tools with it: the guard asks for what is granted at each call.
func ExampleTools() {
	registry, stop := gitSkills()
	defer stop()
	guard := permission.Chain{{Policy: permission.Standard(), Granted: func() []permission.Grant { return registry.Granted("ann") }}}
	set := tool.NewSet(tool.SetConfig{Guard: guard, Agent: "ann"}, skill.Tools(skill.Config{Registry: registry, Agent: "ann"})...)
	fmt.Println(set.Run(context.Background(), []llm.ToolCall{{Name: skill.Activate, Args: llm.Args(`{"skillName":"git-workflow"}`)}})[0].IsError)
	fmt.Println(guard.Judge(permission.Call{Tool: "Bash", Args: map[string]any{"command": "git push"}}).Action)
	// Output:
	// false
	// allow
}
