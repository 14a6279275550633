//go:build unix

package node_test

import (
	"context"
	"fmt"
	"strings"

	"symbio/agent/node"
	"symbio/agent/node/config"
	"symbio/skills"
	"symbio/skills/format"
)

// The spec's examples of agents with skills.

// Skills are found in the usual places, and their allowed-tools count while they are active.
func Example_discoverSkills() {
	settings := config.Default()
	settings.Model = "scripted:testdata/answer.yaml"
	err := node.Run(context.Background(), node.Config{Settings: settings}, func(ctx context.Context, n *node.Node) error {
		catalog, err := n.Skills().Catalog(ctx)
		fmt.Println(len(catalog.Skills) > 0)
		return err
	})
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}

func Example_skills() {
	settings := config.Default()
	settings.Model, settings.Skills.Discover = "scripted:testdata/answer.yaml", false
	err := node.Run(context.Background(), node.Config{Settings: settings}, func(ctx context.Context, n *node.Node) error {
		catalog, err := n.Skills().Catalog(ctx)
		if err != nil {
			return err
		}
		for _, s := range catalog.Skills {
			first, _, _ := strings.Cut(s.Description, ".")
			fmt.Println("-", s.Name+":", first)
		}
		answer, err := n.Ask(ctx, "general", "Help me process this PDF document")
		fmt.Println(answer)
		return err
	})
	fmt.Println(err)
	// Output:
	// - survey-directory: Surveys a directory such as a repository
	// I was asked: Help me process this PDF document
	// <nil>
}

func Example_registerSkill() {
	skill, err := skills.Load("testdata/skills/greet", format.Policy{})
	if err != nil {
		panic(err)
	}
	settings := config.Default()
	settings.Model, settings.Skills.Discover = "scripted:testdata/answer.yaml", false
	err = node.Run(context.Background(), node.Config{Settings: settings}, func(ctx context.Context, n *node.Node) error {
		err := n.Skills().Register(ctx, skill)
		fmt.Println(len(n.Skills().Now().Skills), err) // it, and the one that every node has
		return nil
	})
	fmt.Println(err)
	// Output:
	// 2 <nil>
	// <nil>
}

func Example_skillDirs() {
	settings := config.Default()
	settings.Model = "scripted:testdata/answer.yaml"
	settings.Skills.Dirs = []string{"/opt/company-skills", "testdata/skills"}
	err := node.Run(context.Background(), node.Config{Settings: settings}, func(ctx context.Context, n *node.Node) error {
		greet, err := n.Skills().Now().Find("greet")
		fmt.Println(greet.Name)
		return err
	})
	fmt.Println(err)
	// Output:
	// greet
	// <nil>
}
