TYPE_CHECKING = False
x = 'app'
if TYPE_CHECKING:
    x = 5
ot.version()
file.info(path=x)['type']