class A:
    def f(self):
        return 1
class B(A):
    pass
B().f() + len(brave.search(query='abc'))