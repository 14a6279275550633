package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"symbio/internal/security/strictjson"
	"symbio/internal/security/visible"
)

// Entry is one decision.
type Entry struct {
	Time time.Time `json:"time"`
	Node string    `json:"node"` // id
	// Kind is "" for a tool call of an agent of this node, KindInbound for a call from another
	// node, KindDashboard for what a person does in the browser. For KindInbound, Agent and Name are the other
	// node's, For is what that node claims, and Tool is "invoke" or "send".
	Kind string `json:"kind,omitempty"`
	// Agent is the id of the agent or node that made the call, and Name its name for people.
	Agent string `json:"agent"`
	Name  string `json:"name,omitempty"`
	// For is the chain on whose behalf the call was made, the nearest first.
	For  []string        `json:"for,omitempty"`
	Call string          `json:"call,omitempty"` // the call's id in the agent's conversation
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args,omitempty"` // as decoded; a command as it would be executed
	// Verdict is allow, ask or deny; Stage, Rule, Source, Link and Why come from the verdict.
	Verdict string `json:"verdict"`
	Stage   string `json:"stage,omitempty"`
	Rule    string `json:"rule,omitempty"`
	Source  string `json:"source,omitempty"`
	Link    string `json:"link,omitempty"`
	Why     string `json:"why,omitempty"`
	// Box is what held a command: look, work or network; "" for other tools.
	Box string `json:"box,omitempty"`
	// Approved says whether the call was let through. By names the way in which a person answered,
	// such as "terminal"; it is "" if no person was asked or none answered.
	Approved bool   `json:"approved"`
	By       string `json:"by,omitempty"`
	// Reason is why the person said no, in the person's words; "" = not given.
	Reason string `json:"reason,omitempty"`
	// Count is how many further decisions this record stands for, all repeating an earlier record;
	// 0 means that the record is a decision itself. Since is the time of the first of them, Time
	// the last one's.
	Count uint64     `json:"count,omitempty"`
	Since *time.Time `json:"since,omitempty"`
}

// KindDashboard is the Kind of an Entry about an action of a person in the browser: Agent is the
// node, Tool the action, Args are the fields of its form, and By says who acts. It is recorded
// before the action.
const KindDashboard = "dashboard"

// Outcome says, for people, what became of the call or calls that the entry is about.
func (e Entry) Outcome() string {
	what := "ran"
	if e.Kind == KindInbound {
		what = "accepted"
	}
	if !e.Approved {
		what = "refused"
	}
	if e.Count > 0 {
		what = fmt.Sprintf("%s %d more", what, e.Count)
	}
	if e.By != "" {
		what += " by " + e.By
	}
	return what
}

// MaxRecord is the most bytes of a record. If an entry would be longer, its arguments are left out,
// with their length and hash in their place.
const MaxRecord = 64 << 10

// record is a line of a file. Its fields are written in this order; the hash covers the line, so a
// change of names or order would break every log that exists.
type record struct {
	// Seq counts from 1, through all files.
	Seq uint64 `json:"seq"`
	// Prev is the Hash of the record before; origin for the first of all.
	Prev string `json:"prev"`
	// Torn counts the bytes at the end of the file before, after its last whole record.
	Torn int `json:"torn,omitempty"`
	// Unanchored says that the log was opened at this record, and had no checkpoint of this node.
	Unanchored bool `json:"unanchored,omitempty"`
	// Entry is the decision; none in the first record of a file.
	Entry json.RawMessage `json:"entry,omitempty"`
	// Hash is SHA-256 over the line without this field's value, in hex.
	Hash string `json:"hash"`
}

// origin is the Prev of the first record of all: 64 zeros.
var origin = strings.Repeat("0", 2*sha256.Size)

// sum returns the hash of a record: of its line with an empty hash.
func (r record) sum() (string, error) {
	r.Hash = ""
	text, err := visible.JSON(r)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// line sets the hash and returns the record as it is written, with its line break.
func (r *record) line() ([]byte, error) {
	var err error
	if r.Hash, err = r.sum(); err != nil {
		return nil, err
	}
	text, err := visible.JSON(r)
	return append(text, '\n'), err
}

// parse reads a line that line wrote, given without its line break. It encodes the record again and
// compares, so that a line with another spelling, another order or unknown fields is an error, and
// so is one whose hash is not its own.
func parse(text []byte) (record, error) {
	var r record
	if strictjson.Unmarshal(text, &r) != nil {
		return r, errors.New("it is no record")
	}
	again := r
	if line, err := again.line(); err != nil || r.Hash != again.Hash || !bytes.Equal(line, append(bytes.Clone(text), '\n')) {
		return r, errors.New("it was changed: its hash does not match its content")
	}
	return r, nil
}

// follows returns an error unless r is the record after the one with that number and hash.
func (r record) follows(seq uint64, hash string) error {
	switch {
	case r.Seq != seq+1:
		return fmt.Errorf("its number is %d, and %d is expected: records are missing or were moved", r.Seq, seq+1)
	case r.Prev != hash:
		return errors.New("it does not follow the record before it: one of them was replaced")
	}
	return nil
}

// maxShort is the most bytes of a text in an entry that was too long.
const maxShort = 1024

// short returns the entry's JSON. If it is too long, the arguments are replaced by their length and
// hash, and all texts are cut to maxShort bytes. 512 bytes are left for the other fields of the
// record.
func (e Entry) short() (json.RawMessage, error) {
	text, err := visible.JSON(e)
	if err != nil {
		return nil, fmt.Errorf("record a decision: %w", err)
	}
	if len(text) <= MaxRecord-512 {
		return text, nil
	}
	sum := sha256.Sum256(e.Args)
	e.Args, _ = json.Marshal(map[string]any{"left_out_bytes": len(e.Args), "sha256": hex.EncodeToString(sum[:])}) // a map of those cannot fail
	for _, s := range []*string{&e.Why, &e.Rule, &e.Name, &e.Tool, &e.Call, &e.Source, &e.Link, &e.By, &e.Reason} {
		*s = visible.Truncate(*s, maxShort)
	}
	if len(e.For) > 16 {
		e.For = e.For[:16]
	}
	for i := range e.For {
		e.For[i] = visible.Truncate(e.For[i], maxShort)
	}
	return visible.JSON(e)
}
