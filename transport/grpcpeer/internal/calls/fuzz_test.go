package calls

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
)

// feed makes seeds of messages: whole, cut off, and nothing.
func feed(f *testing.F, messages ...proto.Message) {
	f.Helper()
	f.Add([]byte{})
	for _, m := range messages {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
}

// says is a client whose server sends one event.
type says struct {
	pb.PeerClient
	e *pb.InvokeEvent
}

func (s says) InvokeStream(context.Context, ...grpc.CallOption) (grpc.BidiStreamingClient[pb.InvokeRequest, pb.InvokeEvent], error) {
	return &once{e: s.e}, nil
}

func FuzzInvokeEvent(f *testing.F) {
	feed(f, &pb.InvokeEvent{}, &pb.InvokeEvent{Missed: 1,
		Event: &pb.InvokeEvent_Progress{Progress: &pb.Progress{Message: "x", Done: 1, Total: 2}}},
		&pb.InvokeEvent{Event: &pb.InvokeEvent_Chunk{Chunk: &pb.Chunk{Data: []byte("x"), ContentType: "text/plain"}}},
		&pb.InvokeEvent{Event: &pb.InvokeEvent_Reply{Reply: &pb.InvokeReply{Payload: []byte("x")}}})
	f.Fuzz(func(t *testing.T, b []byte) {
		var m pb.InvokeEvent
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		heard := 0
		c := &Client{rpc: says{e: &m}, listening: make(chan struct{}, 1), waiting: map[uint64]chan *pb.Answer{}}
		r, err := c.Invoke(context.Background(), community.Call{Listen: func(u community.Update) {
			heard++
			if (u.Output != nil) != (m.GetChunk() != nil) {
				t.Errorf("%v was heard as %+v", &m, u)
			}
		}})
		answered := m.GetReply() != nil
		if (err == nil) != (answered && len(r.Data) == len(m.GetReply().GetPayload())) || answered == (heard == 1) || heard > 1 {
			t.Errorf("%v: got %d updates, %d bytes, %v", &m, heard, len(r.Data), err)
		}
	})
}

// once is a stream of one event.
type once struct {
	grpc.BidiStreamingClient[pb.InvokeRequest, pb.InvokeEvent]
	e *pb.InvokeEvent
}

func (o *once) Send(*pb.InvokeRequest) error { return nil }
func (o *once) CloseSend() error             { return nil }

func (o *once) Recv() (*pb.InvokeEvent, error) {
	e := o.e
	if o.e = nil; e == nil {
		return nil, io.EOF
	}
	return e, nil
}

// A frame means what protobuf says it means, however long its payloads are.
func FuzzFrameCodec(f *testing.F) {
	payload := bytes.Repeat([]byte("x"), long)
	request := &pb.InvokeRequest{CallId: "1", Capability: "echo", Payload: payload, Requester: []string{"a"},
		Deadline: durationpb.New(time.Second)}
	feed(f, &pb.Frame{Open: &pb.Open{Bulk: true}, Cancels: []uint64{1}, Calls: []*pb.Call{{Id: 300, Request: request}, {Id: 2}}},
		&pb.Frame{Answers: []*pb.Answer{{Id: 1 << 40, Payload: payload, ContentType: "x"}, {Failure: &pb.Failure{Code: 5}}}})
	c := newCodec()
	c.long = long
	f.Fuzz(func(t *testing.T, b []byte) {
		var want, got pb.Frame
		wantErr, gotErr := proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(b, &want), c.decode(b, &got)
		if (wantErr == nil) != (gotErr == nil) && !errors.Is(gotErr, errEntries) {
			t.Fatalf("got %v, protobuf says %v", gotErr, wantErr)
		}
		if wantErr != nil || gotErr != nil {
			return
		}
		inOrder(&want)
		inOrder(&got)
		if !proto.Equal(&want, &got) {
			t.Fatalf("got %v, want %v", &got, &want)
		}
		sent, err := c.Marshal(&want)
		if err != nil {
			t.Fatal(err)
		}
		if again := new(pb.Frame); proto.Unmarshal(sent.Materialize(), again) != nil || !proto.Equal(&want, again) {
			t.Fatalf("sent %v, protobuf reads %v", &want, again)
		}
		var back pb.Frame
		if err := c.Unmarshal(sent, &back); err != nil {
			t.Fatal(err)
		}
		inOrder(&back)
		if !proto.Equal(&want, &back) {
			t.Fatalf("sent %v, read %v", &want, &back)
		}
	})
}

// long is a payload worth the trouble here, so that fuzzing has short ones.
const long = 16

func encoded(m proto.Message) []byte {
	b, _ := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	return b
}

// inOrder sorts entries, whose order is nothing.
func inOrder(f *pb.Frame) {
	slices.SortFunc(f.Calls, func(a, b *pb.Call) int { return bytes.Compare(encoded(a), encoded(b)) })
	slices.SortFunc(f.Answers, func(a, b *pb.Answer) int { return bytes.Compare(encoded(a), encoded(b)) })
}

// FuzzAnswers gives a caller whatever frames a node may answer with.
func FuzzAnswers(f *testing.F) {
	feed(f, &pb.Frame{}, &pb.Frame{Answers: []*pb.Answer{{Id: 1, Payload: []byte("x")}, {Id: 1}, {Id: 2}}},
		&pb.Frame{Answers: []*pb.Answer{{Id: 1, Failure: &pb.Failure{Code: 1 << 31, Reason: "BUSY", Explanation: "x\x1b"}}}},
		&pb.Frame{Answers: []*pb.Answer{{Id: 1, Payload: make([]byte, 100)}}})
	f.Fuzz(func(t *testing.T, b []byte) {
		var m pb.Frame
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		waiting := make(chan *pb.Answer, 1)
		c := &Client{waiting: map[uint64]chan *pb.Answer{1: waiting}}
		c.dispatch(m.GetAnswers())
		select {
		case a := <-waiting:
			if _, err := replyFrom(a); err != nil && strings.ContainsRune(err.Error(), 0x1b) {
				t.Errorf("got %q", err)
			}
		default:
		}
	})
}
