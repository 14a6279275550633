package approvals

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"symbio/agent/event"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/permission"
)

// content is everything that a person sees of a request. An answer is for
// exactly this content, encoded as JSON; other nodes decode it, so the names of
// the fields are a wire format.
type content struct {
	// Nonce is random, so that no two requests have the same digest and no
	// caller can prepare two calls with one digest.
	Nonce  string          `json:"nonce"`
	Number uint64          `json:"number"`
	Node   string          `json:"node"` // id
	Agent  string          `json:"agent"`
	Name   string          `json:"name"`
	For    []string        `json:"for,omitempty"`
	Tool   string          `json:"tool"`
	Args   json.RawMessage `json:"args"`
	Rule   string          `json:"rule,omitempty"`
	Why    string          `json:"why"`
	permission.Keepable
	Asked time.Time `json:"asked"`
	// Deadline is zero for a restored request, which waits until it is answered.
	Deadline time.Time `json:"deadline,omitzero"`
}

// request is a decision as it is shown: its content, the JSON text of the
// content, and the id of that text. It is immutable.
type request struct {
	content
	text []byte
	id   string
}

// event returns the event of a request that waits.
func (r request) event(diff string) event.Event {
	return event.Event{Type: event.TypeApproval, Agent: r.Agent, Name: r.Name, Why: r.Why, Part: event.Approval{
		ID: r.id, Digest: digestOf(r.text), For: r.For, Tool: r.Tool, Args: r.Args, Rule: r.Rule, Keepable: r.Keepable, Diff: diff, Asked: r.Asked, Deadline: r.Deadline,
	}}
}

// newRequest encodes the content. The only error is content that has no JSON
// form.
func newRequest(s content) (request, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return request{}, err
	}
	return request{content: s, text: text, id: requestID(s.Number, digestOf(text))}, nil
}

// parseRequest decodes a request that another node sent. It returns an error if
// the text does not match the id, or names another node than the sender: then a
// person would answer something else than they saw.
func parseRequest(node, id string, text []byte) (request, error) {
	var s content
	if err := json.Unmarshal(text, &s); err != nil {
		return request{}, fmt.Errorf("approval %.40q: %w", id, err)
	}
	if id != requestID(s.Number, digestOf(text)) || s.Node != node {
		return request{}, fmt.Errorf("approval %.40q: %w", id, errors.New("its text does not match its id, or names another node"))
	}
	return request{content: s, text: text, id: id}, nil
}

// digestOf returns the SHA-256 of a text in hex.
func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// requestID returns the number and the first 8 digits of the digest. It is
// short enough to be typed, and it changes with the text, so that a typed id
// cannot mean another request. Answers carry the whole digest as well.
func requestID(number uint64, digest string) string {
	return strconv.FormatUint(number, 10) + "-" + digest[:8]
}

// wire converts the request to its message for the command line. The caller
// sets NodeName.
func (s *request) wire() *symbiov1.Approval {
	a := &symbiov1.Approval{
		Id: s.id, Agent: s.Agent, Name: s.Name, For: s.For, Tool: s.Tool, Args: s.Args, Rule: s.Rule, Why: s.Why,
		Asked: timestamppb.New(s.Asked), Node: s.Node, Shown: s.text, Digest: digestOf(s.text), Rules: s.Rules,
	}
	for _, o := range s.Offers {
		a.Offers = append(a.Offers, &symbiov1.Offer{Kind: o.Kind, Text: o.Text, Rules: o.Rules, Covers: o.Covers})
	}
	if !s.Deadline.IsZero() {
		a.Deadline = timestamppb.New(s.Deadline)
	}
	return a
}
