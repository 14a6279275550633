package session

import "testing"

// countingStore counts commits.
type countingStore struct {
	Store
	commits int
}

func (s *countingStore) Commit([]Write) error { s.commits++; return nil }

// A caller that comes when its entries are durable already does not write them again.
func TestBatchIsCommittedOnce(t *testing.T) {
	s := &countingStore{}
	j := NewJournal(s, "n")
	b, err := j.add(&Log{}, &Write{})
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if err := j.flush(b); err != nil {
			t.Fatal(err)
		}
	}
	if s.commits != 1 {
		t.Errorf("%d commits, want 1", s.commits)
	}
}
