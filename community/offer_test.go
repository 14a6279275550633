package community_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"symbio/community"

	"github.com/google/go-cmp/cmp"
)

var count = community.Capability{
	Name: "text.count", Description: "Count words",
	Input:  json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`),
	Output: json.RawMessage(`{"type":"integer"}`),
}

// announce has the peer say that it offers the capabilities.
func announce(l *community.Lease, all ...community.Capability) {
	node := community.Member{ID: community.MemberID(peer), Name: "bb", Node: peer, Available: true}
	for _, p := range all {
		node.Provides = append(node.Provides, p.Name)
	}
	l.Snapshot(community.Catalog{Members: []community.Member{node}, Capabilities: all})
}

func TestInputThatDoesNotFitIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		var answer string
		c, l := withPeer(t, &wire{invoke: func(context.Context, community.NodeID, community.Call) (community.Reply, error) {
			sent++
			return community.Reply{Data: []byte(answer)}, nil
		}})
		announce(l, count)
		for name, tt := range map[string]struct {
			input, answer string
			want          error
			says          string
			sent          int
		}{
			"fits":               {`{"text":"a b"}`, `2`, nil, "", 1},
			"missing":            {`{}`, `2`, community.ErrInvalid, `missing properties: ["text"]`, 0},
			"wrong":              {`{"text":1}`, `2`, community.ErrInvalid, `the input: /properties/text: type`, 0},
			"no JSON":            {`{`, `2`, community.ErrInvalid, `not JSON`, 0},
			"nothing":            {``, `2`, community.ErrInvalid, `null`, 0},
			"answer of another":  {`{"text":"a b"}`, `"two"`, community.ErrAgentFailed, `its output schema`, 1},
			"answer that is not": {`{"text":"a b"}`, ``, community.ErrAgentFailed, `its output schema`, 1},
		} {
			sent, answer = 0, tt.answer
			_, err := c.Invoke(t.Context(), community.MemberID(peer), "text.count", community.Signal{Data: []byte(tt.input)})
			if !errors.Is(err, tt.want) || sent != tt.sent || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%s: got %v, %d calls sent; want %v with %q, %d", name, err, sent, tt.want, tt.says, tt.sent)
			}
		}
	})
}

func TestSchemaThatCannotBeUsedTakesAnythingAndIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c, l := withPeer(t, &wire{invoke: func(context.Context, community.NodeID, community.Call) (community.Reply, error) {
			return community.Reply{Data: []byte("1")}, nil
		}}, func(cfg *community.Config) { cfg.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		odd := count
		odd.Input = json.RawMessage(`{"$ref":"https://192.0.2.1/schema"}`)
		announce(l, odd)
		for range 3 {
			if _, err := c.Invoke(t.Context(), community.MemberID(peer), "text.count", community.Signal{Data: []byte("{")}); err != nil {
				t.Error(err)
			}
			announce(l, odd) // the same again is nothing new
		}
		if n := strings.Count(log.String(), "input schema not used"); n != 1 {
			t.Errorf("it was logged %d times:\n%s", n, &log)
		}
		announce(l, count)
		if _, err := c.Invoke(t.Context(), community.MemberID(peer), "text.count", community.Signal{Data: []byte("{")}); !errors.Is(err,
			community.ErrInvalid) {
			t.Errorf("after the node has a schema that can be used: %v", err)
		}
	})
}

func TestProviderChecksWhatCallersMayNotHave(t *testing.T) {
	c, _ := run(t, community.Config{Authorize: anybody})
	called, answer := 0, `2`
	if err := c.Offer(count, func(context.Context, community.Signal) (community.Reply, error) {
		called++
		return community.Reply{Data: []byte(answer)}, nil
	}); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		input, contentType, answer string
		want                       error
		says                       string
		called                     int
	}{
		"fits":             {`{"text":"a b"}`, "", `2`, nil, "", 1},
		"does not fit":     {`{"text":1}`, "", `2`, community.ErrInvalid, "invalid input: the input: /properties/text", 0},
		"not said as JSON": {`{"text":"a b"}`, "text/plain", `2`, community.ErrInvalid, "has to be JSON", 0},
		"too deep":         {strings.Repeat("[", 65) + strings.Repeat("]", 65), "", `2`, community.ErrInvalid, "64 deep", 0},
		"its own answer":   {`{"text":"a b"}`, "", `"secret"`, community.ErrAgentFailed, "the agent failed: its answer does not fit its output schema", 1},
	} {
		called, answer = 0, tt.answer
		_, err := c.Serve(t.Context(), stranger,
			community.Call{Capability: "text.count", Payload: []byte(tt.input), ContentType: tt.contentType})
		if !errors.Is(err, tt.want) || called != tt.called ||
			err != nil && (!strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: got %v, called %d times; want %v with %q, %d", name, err, called, tt.want, tt.says, tt.called)
		}
	}
	if diff := cmp.Diff(community.Refusals{community.RefusedInvalid: 3}, c.Refusals(stranger.ID)); diff != "" {
		t.Errorf("the refusals are others (-want +got):\n%s", diff)
	}
}

func TestCapabilityHasItsOwnLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := run(t, community.Config{Authorize: anybody})
		hold := func(ctx context.Context, _ community.Signal) (community.Reply, error) {
			<-ctx.Done()
			return community.Reply{}, ctx.Err()
		}
		if err := c.Offer(community.Capability{Name: "hold"}, hold, community.WithTimeout(time.Minute),
			community.WithConcurrency(2)); err != nil {
			t.Fatal(err)
		}
		call := func() error {
			_, err := c.Serve(context.Background(), stranger, community.Call{Capability: "hold"})
			return err
		}
		begun := time.Now()
		var calls sync.WaitGroup
		for range 2 {
			calls.Go(func() {
				if err := call(); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != time.Minute {
					t.Errorf("after %v: %v, want the deadline after 1m", time.Since(begun), err)
				}
			})
		}
		synctest.Wait()
		if err := call(); !errors.Is(err, community.ErrBusy) || time.Since(begun) != 0 ||
			!strings.Contains(err.Error(), "2 calls of this capability") {
			t.Errorf("a third: got %v after %v, want ErrBusy at once", err, time.Since(begun))
		}
		calls.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Serve(short, stranger, community.Call{Capability: "hold"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after the two: %v", err)
		}
	})
}

func TestOfferSaysWhyASchemaCannotBeUsed(t *testing.T) {
	c := community.New(community.Config{})
	p := community.Capability{Name: "tree", Output: json.RawMessage(`{"items":{"$ref":"#"}}`)}
	err := c.Offer(p, (&worker{}).Receive)
	if err == nil || !strings.Contains(err.Error(), "offer tree: output: /items/$ref: the schema refers to itself") {
		t.Errorf("got %v", err)
	}
}

func TestCapabilitiesOfAllNodesAreListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, l := withPeer(t, &wire{}, func(cfg *community.Config) { cfg.Name = "aa" })
		if err := c.Offer(count, (&worker{}).Receive); err != nil {
			t.Fatal(err)
		}
		upper := community.Capability{Name: "text.upper"}
		announce(l, upper, count)
		here := community.NodeCapability{Capability: count, Node: c.Node(), NodeName: "aa", Available: true}
		here.Places = 256 // the default of MaxNodeCalls
		there := community.NodeCapability{Capability: count, Node: peer, NodeName: "bb", Available: true}
		other := community.NodeCapability{Capability: upper, Node: peer, NodeName: "bb", Available: true}
		if diff := cmp.Diff([]community.NodeCapability{here, there, other}, c.Capabilities()); diff != "" {
			t.Errorf("listed are others (-want +got):\n%s", diff)
		}
		l.Lost(nil)
		there.Available, other.Available = false, false
		if diff := cmp.Diff([]community.NodeCapability{here, there, other}, c.Capabilities()); diff != "" {
			t.Errorf("after the loss (-want +got):\n%s", diff)
		}
	})
}

func ExampleOfferFunc() {
	type in struct {
		Text string `json:"text" jsonschema:"what to count"`
	}
	c := community.New(community.Config{Authorize: anybody})
	err := community.OfferFunc(c, community.Capability{Name: "text.wordcount"}, func(_ context.Context, a in) (int, error) {
		return len(strings.Fields(a.Text)), nil
	}, community.WithConcurrency(4))
	fmt.Println(err)

	offered, _ := c.Capability(c.Node(), "text.wordcount")
	fmt.Println(string(offered.Input))
	for _, data := range []string{`{"text":"one two"}`, `{"txt":"one"}`} { // as another node would call it
		r, err := c.Serve(context.Background(), community.Peer{ID: "node"},
			community.Call{Capability: "text.wordcount", Payload: []byte(data)})
		fmt.Println(string(r.Data), err)
	}
	// Output:
	// <nil>
	// {"type":"object","properties":{"text":{"type":"string","description":"what to count"}},"required":["text"],"additionalProperties":false}
	// 2 <nil>
	//  invalid input: the input: unexpected additional properties ["txt"]
}

// A schema of many parts makes a large answer too much to check, here and at the caller. It is given all the same.
func TestAnswerTooLargeToCheckIsGiven(t *testing.T) {
	schema, answer := map[string]any{}, map[string]string{}
	for i := range 90 {
		schema[fmt.Sprint("p", i)] = map[string]string{"type": "string"}
		answer[fmt.Sprint("p", i)] = strings.Repeat("x", 757_000/90)
	}
	text, err := json.Marshal(map[string]any{"type": "object", "properties": schema})
	data, err2 := json.Marshal(answer)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	c, _ := run(t, community.Config{Authorize: anybody})
	large := community.Capability{Name: "large", Output: text}
	if err := c.Offer(large, func(context.Context, community.Signal) (community.Reply, error) {
		return community.Reply{Data: data}, nil
	}); err != nil {
		t.Fatal(err)
	}
	if r, err := c.Serve(t.Context(), stranger, community.Call{Capability: "large"}); err != nil || !bytes.Equal(r.Data, data) {
		t.Errorf("got %d bytes, %v; want all %d", len(r.Data), err, len(data))
	}
}
