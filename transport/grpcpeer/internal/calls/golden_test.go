package calls

import (
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "symbio/proto/symbio/v1"
)

var update = flag.Bool("update", false, "write the golden files that do not exist yet")

// TestBytesOfOlderNodesStayReadable reads what versions 1.0 to 1.2 sent. A golden file is never changed: other
// machines still send those bytes.
func TestBytesOfOlderNodesStayReadable(t *testing.T) {
	member := &pb.Member{
		Id: "00112233445566778899aabbccddeeff", Name: "worker", Node: "ffeeddccbbaa99887766554433221100",
		Accepts: []string{"review", "work"}, Provides: []string{"text.count"}, Available: true,
		Metadata: map[string]string{"room": "cellar"},
	}
	catalog := &pb.Catalog{Members: []*pb.Member{member}, Capabilities: []*pb.Capability{{
		Name: "text.count", Description: "Count words", InputSchema: []byte(`{"type":"object"}`), OutputSchema: []byte(`{}`),
		Idempotent: true,
	}}}
	for name, want := range map[string]proto.Message{
		"invoke_request": &pb.InvokeRequest{
			CallId: "c-1", Member: member.Id, Capability: "agent.perception.work", Payload: []byte(`{"a":1}`),
			ContentType: "application/json",
			Deadline:    durationpb.New(90*time.Second + time.Millisecond), Requester: []string{"user", "boss"},
			Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", Tracestate: "x=y",
		},
		"invoke_reply":    &pb.InvokeReply{Payload: []byte("done"), ContentType: "text/plain"},
		"node_descriptor": &pb.NodeDescriptor{Id: member.Node, Name: "kitchen", Protocol: &pb.Version{Major: 1, Minor: 2}, Catalog: catalog},
		"event_snapshot":  &pb.CatalogEvent{Event: &pb.CatalogEvent_Snapshot{Snapshot: catalog}},
		"event_joined":    &pb.CatalogEvent{Event: &pb.CatalogEvent_Joined{Joined: member}},
		"event_updated":   &pb.CatalogEvent{Event: &pb.CatalogEvent_Updated{Updated: member}},
		"event_left":      &pb.CatalogEvent{Event: &pb.CatalogEvent_Left{Left: member.Id}},
		"event_heartbeat": &pb.CatalogEvent{Event: &pb.CatalogEvent_Heartbeat{Heartbeat: &pb.Heartbeat{}}},
		"frame_calls": &pb.Frame{Open: &pb.Open{Bulk: true, MaxMessage: 1 << 20}, Cancels: []uint64{7, 300}, Calls: []*pb.Call{
			{Id: 300, Request: &pb.InvokeRequest{CallId: "c-1", Capability: "text.count", Payload: []byte("a b"), Deadline: durationpb.New(time.Second)}}}},
		"frame_answers": &pb.Frame{Answers: []*pb.Answer{{Id: 300, Payload: []byte("2"), ContentType: "text/plain"},
			{Id: 7, Failure: &pb.Failure{Code: 5, Reason: "NOT_FOUND", Explanation: "gone"}}}},
		"stream_progress": &pb.InvokeEvent{Missed: 300, Event: &pb.InvokeEvent_Progress{Progress: &pb.Progress{Message: "half of it", Done: 50, Total: 100}}},
		"stream_chunk":    &pb.InvokeEvent{Event: &pb.InvokeEvent_Chunk{Chunk: &pb.Chunk{Data: []byte("Once"), ContentType: "text/plain"}}},
		"stream_reply":    &pb.InvokeEvent{Event: &pb.InvokeEvent_Reply{Reply: &pb.InvokeReply{Payload: []byte("done"), ContentType: "text/plain"}}},
		"event_goodbye":   &pb.CatalogEvent{Event: &pb.CatalogEvent_Goodbye{Goodbye: &pb.Goodbye{Reason: "the node stops"}}},
	} {
		t.Run(name, func(t *testing.T) {
			version := "_1.0"
			switch {
			case strings.HasPrefix(name, "frame"):
				version = "_1.1"
			case strings.HasPrefix(name, "stream"):
				version = "_1.2"
			}
			file := filepath.Join("testdata", "wire", name+version+".hex")
			if *update {
				writeGolden(t, file, want)
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			b, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
			if err != nil {
				t.Fatal(err)
			}
			got := want.ProtoReflect().New().Interface()
			if err := proto.Unmarshal(b, got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Errorf("the bytes mean something else now (-want +got):\n%s", diff)
			}
			if len(got.ProtoReflect().GetUnknown()) > 0 {
				t.Error("a field of an older version is not known any more")
			}
		})
	}
}

func writeGolden(t *testing.T, file string, m proto.Message) {
	t.Helper()
	if _, err := os.Stat(file); err == nil {
		return
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for i := 0; i < len(b); i += 32 {
		out.WriteString(hex.EncodeToString(b[i:min(len(b), i+32)]) + "\n")
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
