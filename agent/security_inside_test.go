package agent

import (
	"context"
	"testing"

	"symbio/agent/definition"
	"symbio/agent/tool"
	"symbio/agent/tool/security"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

func TestOrderWithSecurity(t *testing.T) {
	asked := ""
	handler := func(_ context.Context, d tool.Decision) tool.Answer { asked = d.Agent; return tool.Answer{Allow: true} }
	o, err := Order{Definition: definition.General()}.WithSecurity(security.ReadOnly().WithHandler(handler))
	if err != nil || o.Policy.Digest() != permission.ReadOnly().Digest() {
		t.Fatal(o.Policy, err)
	}
	if answer := o.Ask(t.Context(), ApprovalRequest{Name: "ann"}); !answer.Allow || asked != "ann" {
		t.Errorf("it answers %v about %q", answer, asked)
	}
	dir := t.TempDir()
	c, err := constraintsOf(o.Definition, o.security, dir)
	if err != nil {
		t.Fatal(err)
	}
	if p := c.sandbox(sandbox.Permissive()); len(p.Files.Write) > 0 || p.Network != sandbox.NetworkNone || p.Subprocess {
		t.Errorf("commands may do %+v", p)
	}
	if c, err = constraintsOf(o.Definition, new(security.Development()), dir); err != nil || c.sandbox != nil {
		t.Errorf("without a sandbox: %v", err)
	}
	if _, err := (Order{}).WithSecurity(security.Config{Permissions: permission.Config{Allow: permission.Rules("Bash(")}}); err == nil {
		t.Error("a bad rule is taken")
	}
}
