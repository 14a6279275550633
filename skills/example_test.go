package skills_test

import (
	"context"
	"fmt"
	"testing/fstest"

	"symbio/actor"
	"symbio/skills"
)

// An agent sees the catalog in its system prompt, activates a skill, and has what the skill grants
// until it gives the skill back.
func Example() {
	ctx := context.Background()
	sys := actor.NewSystem(actor.Config{})
	defer sys.Shutdown(ctx)
	registry, err := skills.NewRegistry(sys, skills.Config{Bundled: fstest.MapFS{
		"greet/SKILL.md": {Data: []byte("---\nname: greet\ndescription: Says hello.\nallowed-tools: Read\n---\nSay hello.\n")},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	catalog, err := registry.Catalog(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(skills.Render(catalog, skills.PromptOptions{}).Text)
	if _, err := registry.Activate(ctx, skills.ActivateRequest{Agent: "ann", Name: "greet"}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("granted:", registry.Granted("ann"))
	if err := registry.Deactivate(ctx, "ann", "greet"); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("granted:", registry.Granted("ann"))
	// Output:
	// <available_skills>
	//   <skill>
	//     <name>greet</name>
	//     <description>Says hello.</description>
	//     <location>bundled:greet/SKILL.md</location>
	//   </skill>
	// </available_skills>
	// granted: [Read by skill:greet]
	// granted: []
}

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

func ExampleRegistry_Activate() {
	registry, stop := gitSkills()
	defer stop()
	skill, err := registry.Activate(context.Background(), skills.ActivateRequest{Agent: "ann", Name: "git-workflow"})
	fmt.Printf("%q %v %v\n", skill.Instructions, registry.Granted("ann"), err)
	// Output: "Commit often.\n" [Bash(git:*) by skill:git-workflow Read by skill:git-workflow] <nil>
}

func ExampleRegistry_Granted() {
	registry, stop := gitSkills()
	defer stop()
	_, err := registry.Activate(context.Background(), skills.ActivateRequest{Agent: "ann", Name: "git-workflow"})
	fmt.Println(registry.Granted("ann"), err)
	err = registry.Deactivate(context.Background(), "ann", "git-workflow")
	fmt.Println(registry.Granted("ann"), err)
	// Output:
	// [Bash(git:*) by skill:git-workflow Read by skill:git-workflow] <nil>
	// [] <nil>
}
