package symbiotest

const Slow = 1

func hasten() error { return nil }
