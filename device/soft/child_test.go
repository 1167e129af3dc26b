package soft_test

func child(mode string) int { return 2 }
