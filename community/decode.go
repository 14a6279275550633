package community

import (
	"bytes"
	"encoding/json"
	"fmt"

	"symbio/internal/security/strictjson"
)

// MaxDepth is how deep a JSON payload may be nested that is checked by a schema. It is far more than people
// write, and far less than a recursive reader can handle.
const MaxDepth = 64

// CheckJSON returns an error unless data is one JSON value, nested at most depth deep. The error wraps ErrInvalid
// and may be shown to another node. CheckJSON does not build the value: it is for payloads that are only passed
// on.
func CheckJSON(data []byte, depth int) error {
	if err := checkDepth(data, depth); err != nil {
		return Explain(ErrInvalid, err.Error())
	}
	if !json.Valid(data) {
		return Explain(ErrInvalid, strictjson.ErrSyntax.Error())
	}
	return nil
}

// checkDepth counts brackets outside of strings. It can accept data that is not JSON.
func checkDepth(data []byte, most int) error {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			i += stringLength(data[i+1:])
		case c == '{' || c == '[':
			if depth++; depth > most {
				return fmt.Errorf("it is nested more than %d deep", most)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

// stringLength returns the length of the JSON string that data begins with, with the quote at its end.
func stringLength(data []byte) (n int) {
	for {
		end := bytes.IndexByte(data[n:], '"')
		if end < 0 {
			return len(data)
		}
		n += end + 1
		before := n - 1
		for before > 0 && data[before-1] == '\\' {
			before--
		}
		if (n-1-before)%2 == 0 {
			return n
		}
	}
}

// decode reads one JSON value and refuses text that another reader could read differently: a key twice (with fold
// also in another case), or data after the value. Numbers become int64 if they fit, else float64. Empty data is
// null, as it is for a Provider.
func decode(data []byte, fold bool) (any, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, nil
	}
	return strictjson.Decode(data, strictjson.Options{MaxDepth: MaxDepth, FoldKeys: fold})
}
