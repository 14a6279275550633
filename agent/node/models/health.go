package models

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	symbiov1 "symbio/proto/symbio/v1"
)

// Health returns the models that are waited for, or asked last, as the command line shows them.
func (m *Models) Health() (list []*symbiov1.ModelHealth) {
	until := func(d time.Duration) *timestamppb.Timestamp {
		if d == 0 {
			return nil
		}
		return timestamppb.New(time.Now().Add(d))
	}
	for _, h := range m.book.Health() {
		list = append(list, &symbiov1.ModelHealth{Model: h.Model, WaitUntil: until(h.Wait), LastUntil: until(h.Avoid), Failures: uint32(h.Failures), Why: h.Err.Error()})
	}
	return list
}
