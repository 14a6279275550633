package share

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Call invokes a capability of one other node, with JSON on both sides.
type Call func(ctx context.Context, capability string, input []byte) (output []byte, err error)

// patience is how long a fetch may take: 8 MiB at the speed of a bad wireless link.
const patience = 2 * time.Minute

// List asks a node which skills it shares, at most 10,000. Errors are those of call, or ErrManifest for an
// answer that makes no sense.
func List(ctx context.Context, call Call) ([]Offered, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, ErrSlow)
	defer cancel()
	const most = 10_000
	var all []Offered
	for after := ""; ; {
		var page ListReply
		if err := ask(ctx, call, ListCapability, ListRequest{after}, &page); err != nil {
			return nil, err
		}
		for _, one := range page.Skills {
			if one.Name <= after || len(all) >= most {
				return nil, fmt.Errorf("%w: its list of skills has no end or no order", ErrManifest)
			}
			after = one.Name
			all = append(all, one)
		}
		if !page.More || len(page.Skills) == 0 {
			return all, nil
		}
	}
}

// Fetch takes a skill from a node, and checks all of it. want is the hash that it has to have, "" for whatever
// the node has under that name. Nothing is stored. Every refusal is one of this package's errors; others are
// those of call.
func Fetch(ctx context.Context, call Call, name, want string) (*Pack, error) {
	p, err := fetch(ctx, call, name, want)
	if err != nil {
		return nil, fmt.Errorf("fetch the skill %s: %w", clip(name), err)
	}
	return p, nil
}

func fetch(ctx context.Context, call Call, name, want string) (*Pack, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("%w: it took longer than %v", ErrSlow, patience))
	defer cancel()
	var first FetchReply
	if err := ask(ctx, call, FetchCapability, FetchRequest{Name: name}, &first); err != nil {
		return nil, err
	}
	m, err := DecodeManifest([]byte(first.Manifest))
	if err != nil {
		return nil, err
	}
	hash := m.Hash()
	switch {
	case m.Name != name:
		return nil, fmt.Errorf("%w: it is called %q", ErrManifest, m.Name)
	case want != "" && want != hash:
		return nil, fmt.Errorf("%w: it is %s, not %s", ErrHash, hash, want)
	}
	total := m.Bytes()
	content := make([]byte, 0, total)
	for int64(len(content)) < total {
		left := total - int64(len(content))
		var r FetchReply
		if err := ask(ctx, call, FetchCapability, FetchRequest{name, hash, int64(len(content)), min(left, maxPiece)}, &r); err != nil {
			return nil, err
		}
		piece, err := base64.StdEncoding.DecodeString(r.Data)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w: a piece is not base64", ErrHash)
		case int64(len(piece)) > left:
			return nil, fmt.Errorf("%w: it sends more than its manifest says", ErrHash)
		case int64(len(piece)) < min(left, minPiece):
			return nil, fmt.Errorf("%w: in pieces of %d bytes", ErrSlow, len(piece))
		}
		content = append(content, piece...)
	}
	return newPack(m, content)
}

// ask makes one call. Why the context ended is said in its own words.
func ask(ctx context.Context, call Call, capability string, in, out any) error {
	input, err := json.Marshal(in)
	if err != nil {
		return err
	}
	output, err := call(ctx, capability, input)
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, ErrSlow) {
			return cause
		}
		return err
	}
	if err := json.Unmarshal(output, out); err != nil {
		return fmt.Errorf("%w: %s answers what is no answer", ErrManifest, capability)
	}
	return nil
}
