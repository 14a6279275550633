package mcp

import (
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A pin is of the schema that the server sent, not of the one that models are shown.
func TestToolHashCoversSchemaAsSent(t *testing.T) {
	s := &server{entry: Server{Name: "s"}}
	hash := func(schema map[string]any) string {
		return s.tool(&sdk.Tool{Name: "x", InputSchema: schema}, t.Logf).Hash
	}
	if hash(map[string]any{}) == hash(map[string]any{"type": "object"}) {
		t.Error("a schema without a type and one with it have the same hash")
	}
	if one, two := hash(map[string]any{}), hash(map[string]any{}); one != two {
		t.Error("the same schema has two hashes")
	}
}
