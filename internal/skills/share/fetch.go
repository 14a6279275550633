package share

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Call invokes a capability of one other node, with JSON on both sides. It must return when ctx
// ends. List and Fetch call it from one goroutine, one call at a time.
type Call func(ctx context.Context, capability string, input []byte) (output []byte, err error)

// fetchTimeout limits a whole fetch or list. 8 MiB in that time are 70 KB/s, the speed of a bad
// wireless link.
const fetchTimeout = 2 * time.Minute

// List returns the skills that a node shares, at most 10,000, ordered by name. It asks page by
// page. Errors: the errors of call, ErrSlow after fetchTimeout, and ErrManifest if an answer makes no
// sense.
func List(ctx context.Context, call Call) ([]SkillSummary, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, fetchTimeout, ErrSlow)
	defer cancel()
	const most = 10_000
	var all []SkillSummary
	for after := ""; ; {
		var page ListReply
		if err := ask(ctx, call, ListCapability, ListRequest{after}, &page); err != nil {
			return nil, err
		}
		for _, one := range page.Skills {
			// A node that repeats a page would otherwise keep this loop running.
			if one.Name <= after || len(all) >= most {
				return nil, fmt.Errorf("%w: its list of skills has no end or no order", ErrManifest)
			}
			after = one.Name
			all = append(all, one)
		}
		// An empty page ends the list whatever More says, for the same reason.
		if !page.More || len(page.Skills) == 0 {
			return all, nil
		}
	}
}

// Fetch gets a skill from a node and checks all of it. want is the hash that it must have, "" for
// whatever the node has under that name. Fetch stores nothing. A refused skill is one of this
// package's errors; other errors come from call.
func Fetch(ctx context.Context, call Call, name, want string) (*Pack, error) {
	p, err := fetch(ctx, call, name, want)
	if err != nil {
		return nil, fmt.Errorf("fetch the skill %s: %w", clip(name), err)
	}
	return p, nil
}

// fetch asks for the manifest first, and then for the content piece by piece. It checks each piece
// before it asks for the next one, so that a bad node costs little.
func fetch(ctx context.Context, call Call, name, want string) (*Pack, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, fetchTimeout, fmt.Errorf("%w: it took longer than %v", ErrSlow, fetchTimeout))
	defer cancel()
	m, err := FetchManifest(ctx, call, name)
	if err != nil {
		return nil, err
	}
	// DecodeManifest accepts one form only, so this is the hash of the bytes that were sent.
	hash := m.Hash()
	if want != "" && want != hash {
		return nil, fmt.Errorf("%w: it is %s, not %s", ErrHash, hash, want)
	}
	// The manifest was checked, so total is at most MaxSkill and may be allocated at once.
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
		// Tiny pieces would make this node send thousands of calls.
		case int64(len(piece)) < min(left, minPiece):
			return nil, fmt.Errorf("%w: in pieces of %d bytes", ErrSlow, len(piece))
		}
		content = append(content, piece...)
	}
	return newPack(m, content)
}

// FetchManifest gets the manifest of a skill from a node and checks it. Its hash is the hash of the
// skill. The caller limits the time.
func FetchManifest(ctx context.Context, call Call, name string) (Manifest, error) {
	var first FetchReply
	if err := ask(ctx, call, FetchCapability, FetchRequest{Name: name}, &first); err != nil {
		return Manifest{}, err
	}
	m, err := DecodeManifest([]byte(first.Manifest))
	if err == nil && m.Name != name {
		err = fmt.Errorf("%w: it is called %q", ErrManifest, m.Name)
	}
	return m, err
}

// ask makes one call and decodes its answer into out. If ErrSlow ended the context, ask returns
// that instead of the error of call. An answer that is not JSON is ErrManifest.
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
