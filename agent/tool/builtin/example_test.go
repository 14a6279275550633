package builtin_test

import (
	"context"
	"fmt"
	"os"

	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/agent/tool/builtin"
	"symbio/agent/tool/web"
	"symbio/security/permission"
)

// All built-in tools of a directory come from New; tool.Named chooses among them, by their names or by a preset.
func Example() {
	dir, err := os.MkdirTemp("", "work")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	search, err := web.NewEngine(web.EngineConfig{URL: "https://search.example"})
	if err != nil {
		panic(err)
	}

	work, err := builtin.New(builtin.Config{Dir: dir, Search: search})
	if err != nil {
		panic(err)
	}
	defer work.Close()
	fmt.Println("all:", tool.NewSet(tool.SetConfig{}, work.Tools()...).Names())

	some, err := tool.Named(work.Tools(), "preset:read_only", "Write")
	if err != nil {
		panic(err)
	}
	set := tool.NewSet(tool.SetConfig{Guard: permission.Chain{{Policy: permission.Development()}}, Dir: dir}, some...)
	fmt.Println("some:", set.Names())
	fmt.Println(set.Run(context.Background(), []llm.ToolCall{{Name: "Write", Args: llm.Args(`{"file_path": "a.txt", "content": "hello"}`)}})[0].Text)

	_, err = tool.Named(work.Tools(), "Raed")
	fmt.Println(err)
	// Output:
	// all: [Read Glob Grep Write Edit MultiEdit Bash Git WebFetch WebSearch]
	// some: [Read Glob Grep Write]
	// Created a.txt: 5 bytes, 0 lines.
	// there is no tool "Raed"
}

func ExampleNew() {
	work, err := builtin.New(builtin.Config{Dir: os.TempDir()})
	if err != nil {
		panic(err)
	}
	defer work.Close()
	read, err := tool.Named(work.Tools(), "Read")
	fmt.Println(len(work.Tools()), read[0].Spec().Name, err)
	preset, err := tool.Named(work.Tools(), "preset:read_only")
	fmt.Println(len(preset), err)
	// Output:
	// 9 Read <nil>
	// 3 <nil>
}
