package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"symbio/internal/security/strictjson"
)

const (
	// maxArgs limits the arguments of a call. It is more than any tool needs; a longer text means
	// that the model is caught in a loop.
	maxArgs = 1 << 20
	// maxDepth limits nesting. It is more than any schema has, and small enough for a recursive
	// reader's stack.
	maxDepth = 64
)

// DecodeArgs decodes the arguments of a call as every tool does: one JSON object of at most 1 MiB,
// without duplicate keys (regardless of case) and without trailing data. Integers
// become int64, other numbers float64. Empty text is an empty object, because some models write
// that for tools without arguments. The error is a sentence for the model.
func DecodeArgs(args json.RawMessage) (map[string]any, error) {
	if len(args) > maxArgs {
		return nil, fmt.Errorf("the arguments are %d bytes long; at most %d are read: do it in smaller parts", len(args), maxArgs)
	}
	if len(bytes.TrimSpace(args)) == 0 {
		return map[string]any{}, nil
	}
	v, err := strictjson.Decode(args, strictjson.Options{MaxDepth: maxDepth, FoldKeys: true, ExactNumbers: true, ReplaceHalves: true})
	if errors.Is(err, strictjson.ErrSyntax) {
		return nil, fmt.Errorf("the arguments are not one JSON object: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("the arguments: %w", err)
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("the arguments have to be one JSON object, such as {\"name\": \"value\"}")
	}
	return object, nil
}
