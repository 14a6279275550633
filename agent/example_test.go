package agent_test

import (
	"fmt"
	"os"

	"symbio/agent"
	"symbio/agent/definition"
	"symbio/agent/tool/security"
	"symbio/security/permission"
)

// One value sets the rules of an agent, what holds its commands, and who is asked.
func ExampleOrder_WithSecurity() {
	order := agent.Order{Definition: definition.General()}
	handler := security.Terminal(os.Stdin, os.Stdout)
	for _, preset := range []security.Config{security.Standard(), security.Development(), security.Restrictive(), security.ReadOnly()} {
		secured, err := order.WithSecurity(preset.WithHandler(handler))
		fmt.Println(preset.Permissions.Preset, preset.Sandbox, secured.Policy.Default, err)
	}
	custom := security.Config{
		Permissions: permission.Config{
			Allow:   permission.Rules("Read", "Bash(git:*)"),
			Deny:    permission.Rules("Bash(rm:*)"),
			Default: "ask",
		},
		Sandbox: "standard",
		Handler: handler,
	}
	secured, err := order.WithSecurity(custom)
	fmt.Println(secured.Policy.Deny, err)
	// Output:
	// standard standard ask <nil>
	// development off ask <nil>
	// restrictive restrictive deny <nil>
	// read_only restrictive deny <nil>
	// [Bash(rm -rf:*) Bash(rm:*)] <nil>
}
