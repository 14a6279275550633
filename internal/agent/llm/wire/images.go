package wire

import (
	"errors"

	"symbio/agent/llm"
	"symbio/internal/security/lazyregexp"
)

var (
	aboutImages = lazyregexp.New(`(?i)image|vision|multi-?modal|picture`)
	// refusesAllImages is how servers say that it is not the one picture but all: OpenAI's "only
	// supported by certain models", vLLM's "is not a multimodal model", llama.cpp's "image input is
	// not supported", Ollama's "missing data required for image input", and what strict readers of
	// JSON make of a part that they do not know.
	refusesAllImages = lazyregexp.New(`(?i)support|multi-?modal|vision|unknown variant|required for image input|does not (accept|allow|take)`)
)

// RefusesImages reports whether a server refused a request because of its images, and whether it
// would refuse all that are sent to this model. Some do so with the status of a failure. An error about
// a tool is not about images, whatever the tool's name.
func RefusesImages(err error, r llm.Request) (refused, always bool) {
	var e *llm.Error
	if !r.HasImages() || !errors.As(err, &e) || e.Status/100 != 4 && e.Status/100 != 5 {
		return false, false
	}
	if tool, _ := llm.RefusedTool(err, r.Tools); tool != "" {
		return false, false
	}
	if !errors.Is(e, llm.ErrInvalid) && !errors.Is(e, llm.ErrUnavailable) || !aboutImages().MatchString(e.Detail) {
		return false, false
	}
	return true, refusesAllImages().MatchString(e.Detail)
}
