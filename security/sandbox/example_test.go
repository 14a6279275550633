package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"symbio/security/sandbox"
)

// A Box, made once, runs what an agent asks for.
func Example() {
	ctx := context.Background()
	box := sandbox.Probe(ctx, sandbox.Config{Env: os.Environ()})
	policy, err := sandbox.Standard("/home/ann/src")
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := box.Run(ctx, policy, sandbox.Spec{Argv: []string{"git", "status"}, Dir: "/home/ann/src"})
	var refused *sandbox.Refusal
	switch {
	case errors.As(err, &refused):
		fmt.Println("ask somebody, and set Spec.Accept if they agree:", refused.Lacks)
	case err != nil:
		fmt.Println(err, r.Stdout)
	default:
		fmt.Println(r.Code, r.Stdout)
	}
}

// A sub-agent gets no more than its parent has.
func ExampleMeet() {
	parent := sandbox.Policy{Files: sandbox.Files{Read: []string{"/"}, Write: []string{"/w"}}, Network: sandbox.NetworkLocal, Subprocess: true}
	child := sandbox.Policy{Files: sandbox.Files{Read: []string{"/"}, Write: []string{"/w/docs", "/etc"}}, Network: sandbox.NetworkFull}
	p := sandbox.Meet(parent, child)
	fmt.Println(p.Files.Write, p.Network, p.Subprocess)
	// Output: [/w/docs] local false
}

func ExamplePolicy() {
	files, err := sandbox.WorkingDirectoryOnly(os.TempDir())
	custom := sandbox.Policy{
		Network:    sandbox.NetworkLocal, // NetworkNone, NetworkFull
		Files:      files,                // ReadOnly, Custom
		Subprocess: true,
	}
	standard, missing := sandbox.Standard(os.TempDir())
	fmt.Println(custom.Network, standard.Network, sandbox.Restrictive().Network, err, missing)
	// Output: local local none <nil> <nil>
}
