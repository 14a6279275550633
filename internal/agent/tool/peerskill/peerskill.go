// Package peerskill holds the tool by which a model fetches a skill that another node shares.
package peerskill

import (
	"context"
	"fmt"

	_ "embed"

	"symbio/agent/tool"
	"symbio/internal/security/visible"
	"symbio/internal/skills/share"
)

//go:embed skill_fetch.md
var text string

type args struct {
	Name string `json:"name" jsonschema:"the name of the skill"`
	Node string `json:"node,omitempty" jsonschema:"the name or id of the node that shares it; absent = the only one that shares skills"`
}

// Tool returns skill_fetch. fetch fetches and stores a skill, which stays inert until a person
// trusts it.
func Tool(fetch func(ctx context.Context, node, name string) (share.Origin, error)) tool.Tool {
	return tool.New(tool.Spec{Name: "skill_fetch", Description: text}, func(ctx context.Context, a args) tool.Result {
		o, err := fetch(ctx, a.Node, a.Name)
		if err != nil {
			return tool.Result{Text: err.Error(), IsError: true}
		}
		return tool.Result{Text: fmt.Sprintf("Fetched the skill %s from node %s: %s, %s, SHA-256 %s. It cannot be used yet: a person has to look at it and trust it, with: symbio skills trust %s", o.Name, o.NodeName, visible.Plural(o.Files, "file"), visible.Plural(int(o.Bytes), "byte"),
			o.Hash, o.Hash)}
	})
}
