package control_test

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/reflection"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/descriptorpb"

	"symbio/internal/agent/node/control"
)

// Our answers are those of gRPC's own reflection, on a stream for all questions.
func TestReflectionAnswersAsThatOfGRPC(t *testing.T) {
	ours := control.NewServer(control.Config{Health: health.NewServer()})
	theirs := reflection.NewServerV1(reflection.ServerOptions{Services: ours})
	other := grpc.NewServer()
	reflectionv1.RegisterServerReflectionServer(other, theirs)
	questions := func() []*reflectionv1.ServerReflectionRequest {
		all := []*reflectionv1.ServerReflectionRequest{
			{Host: "h", MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{ListServices: "*"}},
			{MessageRequest: &reflectionv1.ServerReflectionRequest_FileContainingExtension{FileContainingExtension: &reflectionv1.ExtensionRequest{ContainingType: "symbio.v1.StatusReply", ExtensionNumber: 1000}}},
		}
		for _, name := range []string{"symbio/v1/control.proto", "google/protobuf/timestamp.proto", "nothing.proto"} {
			all = append(all, &reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_FileByFilename{FileByFilename: name}})
		}
		for _, name := range []string{"symbio.v1.Control", "symbio.v1.Control.Status", "symbio.v1.StatusReply", "grpc.reflection.v1alpha.ServerReflection", "grpc.health.v1.Health", "nothing"} {
			all = append(all, &reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: name}})
		}
		return all
	}()
	got, want := answers(t, ours, questions), answers(t, other, questions)
	for i := range questions {
		files := func(r *reflectionv1.ServerReflectionResponse) (all []*descriptorpb.FileDescriptorProto) {
			for _, text := range r.GetFileDescriptorResponse().GetFileDescriptorProto() {
				f := &descriptorpb.FileDescriptorProto{}
				if err := proto.Unmarshal(text, f); err != nil {
					t.Fatal(err)
				}
				all = append(all, f)
			}
			slices.SortFunc(all, func(a, b *descriptorpb.FileDescriptorProto) int { return strings.Compare(a.GetName(), b.GetName()) })
			return all
		}
		if d := cmp.Diff(files(want[i]), files(got[i]), protocmp.Transform()); d != "" {
			t.Errorf("%v: -theirs +ours:\n%s", questions[i], d)
		}
		for _, r := range []*reflectionv1.ServerReflectionResponse{want[i], got[i]} {
			if f := r.GetFileDescriptorResponse(); f != nil {
				f.FileDescriptorProto = nil
			}
		}
		if d := cmp.Diff(want[i], got[i], protocmp.Transform()); d != "" {
			t.Errorf("%v: -theirs +ours:\n%s", questions[i], d)
		}
	}
}

// answers asks a server all questions on one stream.
func answers(t *testing.T, s *grpc.Server, questions []*reflectionv1.ServerReflectionRequest) (all []*reflectionv1.ServerReflectionResponse) {
	t.Helper()
	l := bufconn.Listen(1 << 20)
	go s.Serve(l)
	defer s.Stop()
	conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range questions {
		if err := stream.Send(q); err != nil {
			t.Fatal(err)
		}
		r, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}
