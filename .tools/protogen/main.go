// Protogen compiles .proto files and runs the pinned Go plugins on them, so that generating needs
// nothing installed but Go.
//
//	protogen ROOT OUT FILE...
//
// FILEs are relative to ROOT; generated files land beside them below OUT.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

// plugins are `tool` lines of this module's go.mod, which pins their versions.
var plugins = []string{"protoc-gen-go", "protoc-gen-go-grpc"}

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: protogen ROOT OUT FILE...")
		os.Exit(2)
	}
	if err := generate(context.Background(), os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

func generate(ctx context.Context, root, out string, files []string) error {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{root}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	compiled, err := compiler.Compile(ctx, files...)
	if err != nil {
		return err
	}
	param := "paths=source_relative"
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: files, Parameter: &param}
	seen := map[string]bool{}
	var add func(protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) { // imports first, as plugins expect
		if seen[f.Path()] {
			return
		}
		seen[f.Path()] = true
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i).FileDescriptor)
		}
		request.ProtoFile = append(request.ProtoFile, descriptor(f))
	}
	for _, f := range compiled {
		add(f)
	}
	input, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	for _, plugin := range plugins {
		cmd := exec.CommandContext(ctx, "go", "tool", plugin)
		cmd.Stdin, cmd.Stderr = bytes.NewReader(input), os.Stderr
		answer, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("%s: %w", plugin, err)
		}
		if err := write(out, answer); err != nil {
			return fmt.Errorf("%s: %w", plugin, err)
		}
	}
	return nil
}

func descriptor(f protoreflect.FileDescriptor) *descriptorpb.FileDescriptorProto {
	return protoutil.ProtoFromFileDescriptor(f)
}

func write(out string, answer []byte) error {
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(answer, &response); err != nil {
		return err
	}
	if response.Error != nil {
		return fmt.Errorf("%s", response.GetError())
	}
	for _, f := range response.File {
		path := filepath.Join(out, f.GetName())
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(f.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
