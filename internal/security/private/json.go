package private

import (
	"encoding/json"
	"errors"
	"fmt"

	"symbio/internal/security/strictjson"
)

// ErrDamaged means that a file does not hold what symbio writes there.
var ErrDamaged = errors.New("it is damaged")

// ReadJSON reads a value from a file as Read does, with its errors. The JSON must be exactly one
// value, without fields that v does not have, or the error is ErrDamaged; v may then be filled in
// part. The value is not checked further.
func ReadJSON(file string, limit int64, v any) error {
	data, err := Read(file, limit)
	if err != nil {
		return err
	}
	if err := strictjson.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s: %w: %w", file, ErrDamaged, err)
	}
	return nil
}

// ReplaceJSON writes a value to a file as Replace does, indented for people. It returns ErrFull,
// and leaves the file as it was, if that would take more than limit bytes.
func ReplaceJSON(file string, limit int64, v any) error {
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	if int64(len(data)) > limit {
		return fmt.Errorf("write %s: %w: it would have over %d bytes", file, ErrFull, limit)
	}
	return Replace(file, data)
}
