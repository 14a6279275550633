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

	symbiov1 "symbio/proto/symbio/v1"
)

// shown is all that a person sees of a decision. Its text, and nothing else, is what an answer is about.
type shown struct {
	// Nonce is drawn for each, so that nobody can make two of one digest, and no digest comes twice.
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
	// Rules are what a lasting answer would keep.
	Rules    []string  `json:"rules,omitempty"`
	Asked    time.Time `json:"asked"`
	Deadline time.Time `json:"deadline"`
}

// sheet is a decision as it is shown: the text, and the id and digest that are made of it.
type sheet struct {
	shown
	text       []byte
	id, digest string
}

func newSheet(s shown) (sheet, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return sheet{}, err
	}
	digest := digestOf(text)
	return sheet{shown: s, text: text, id: sheetID(s.Number, digest), digest: digest}, nil
}

// readSheet reads a text that another node sent under an id. It is an error when the text is another one.
func readSheet(node, id string, text []byte) (sheet, error) {
	var s shown
	if err := json.Unmarshal(text, &s); err != nil {
		return sheet{}, fmt.Errorf("approval %.40q: %w", id, err)
	}
	digest := digestOf(text)
	if id != sheetID(s.Number, digest) || s.Node != node {
		return sheet{}, fmt.Errorf("approval %.40q: %w", id, errors.New("its text is not the one that the id was made of"))
	}
	return sheet{shown: s, text: text, id: id, digest: digest}, nil
}

func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// sheetID is short enough to be typed, and names the text: who types it means what they saw.
func sheetID(number uint64, digest string) string {
	return strconv.FormatUint(number, 10) + "-" + digest[:8]
}

func (s *sheet) wire() *symbiov1.Approval {
	return &symbiov1.Approval{
		Id: s.id, Agent: s.Agent, Name: s.Name, For: s.For, Tool: s.Tool, Args: s.Args, Rule: s.Rule, Why: s.Why,
		Asked: timestamppb.New(s.Asked), Deadline: timestamppb.New(s.Deadline), Node: s.Node, Shown: s.text, Digest: s.digest, Rules: s.Rules,
	}
}
